package suggest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// suggestDomain returns what would help a job whose members share a domain, where none has capacity for all of them: nodes to
// uncordon, else capacity in the domain that comes nearest; or what the job itself could do, of which a wider domain takes the
// least from it.
func (q *search) suggestDomain() Suggestions {
	placed := q.placed
	free := q.first(q.uncordon, q.provide)
	return alternatives(free, q.first(q.widen, q.drop, q.lowerMinimum(placed), q.lowerRole, q.preemption))
}

// provide returns for how many more members the domain with the most capacity would need some; nil when the job would not start
// with that. No number below it would do, since no domain has more. The capacity is supposed on those nodes first that have
// least.
func (q *search) provide() *Change {
	q.left -= 2 * len(q.session.Snapshot.Nodes)
	nearest := place.New(q.session, q.job, q.largest, &q.exact).Nearest(q.capacity())
	if nearest == nil || len(nearest.Nodes) == 0 || len(nearest.Like.Unoffered) > 0 { // of what no node offers, a domain lacks all
		return nil
	}
	rooms := make([]NodeAmount, min(len(nearest.Nodes), int(min(nearest.Lacks, maxRooms))))
	for i := range rooms {
		rooms[i].Node = nearest.Nodes[i].Name
		members := nearest.Lacks / int64(len(rooms))
		if int64(i) < nearest.Lacks%int64(len(rooms)) {
			members++
		}
		for position, amount := range nearest.Like.Request {
			rooms[i].Amount.Set(position, amount*min(members, model.MaxAmount/max(1, amount)))
		}
	}
	if !q.startsWith(rooms) {
		return nil
	}
	return &Change{
		Kind: Provide, Members: int(nearest.Lacks), Rooms: rooms,
		words: fmt.Sprintf("provide capacity for %s in %s", counted(int(nearest.Lacks), "more member"), nearest.Name),
	}
}

// maxRooms is on how many nodes capacity is supposed.
const maxRooms = 1000

// widen returns the first level that the job shares, and the next wider one of its tree with which it would start.
func (q *search) widen() *Change {
	job, from := q.job, q.job.Topology
	defer func() { job.Topology = from }()
	for i := range from {
		if from[i].Preferred {
			continue
		}
		for _, wider := range q.session.LevelsAbove(from[i].Level) {
			entry := from[i]
			entry.Level = wider.Level
			if q.left <= 0 || slices.ContainsFunc(from, func(other model.TopologyConstraint) bool { return isAlike(&other, &entry) }) {
				continue // two entries that are alike are none that a group may have
			}
			job.Topology = slices.Clone(from)
			job.Topology[i] = entry
			if q.isSchedulable() {
				return widened(i, &from[i], wider.Level)
			}
		}
	}
	return nil
}

func isAlike(a, b *model.TopologyConstraint) bool {
	return a.Level == b.Level && a.Preferred == b.Preferred && slices.Equal(a.Roles, b.Roles) && a.SliceSize == b.SliceSize
}

// widened says "use level block in place of rack".
func widened(entry int, from *model.TopologyConstraint, level string) *Change {
	c := &Change{Kind: Widen, Entry: entry, Level: level, words: fmt.Sprintf("use level %s in place of %s", level, from.Level)}
	if len(from.Roles) > 0 {
		c.words += " for the role " + strings.Join(from.Roles, ", ")
	}
	return c
}
