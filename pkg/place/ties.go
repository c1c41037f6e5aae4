package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds out which members share a domain, and how many of them fit into each one.

// levelTie is members that share a domain of one level, of which none has a node.
type levelTie struct {
	shared *model.TopologyConstraint
	// maySplit reports that they may be in several domains if none has capacity for them.
	maySplit bool
	// levels are those whose domains are tried, the narrowest first: up to that of the tie, and beyond a preferred one.
	levels []*engine.Domains
	// members are the kinds of the members.
	members map[equivalenceClass]bool
	// needs is how many of them the minimum needs at least.
	needs  int64
	shapes []tiedShape
}

// tiedShape is the waiting members of a tie that have one shape.
type tiedShape struct {
	// tasks are one of each kind.
	tasks []*model.Task
	// needs is how many the minimum needs at least, exists how many there are.
	needs, exists int64
	// fits is how many fit on each node, by its index, before the tries; table returns the same by domain, as the session stands,
	// and is nil where they keep apart from each other.
	fits  []int32
	table func() *engine.Fits
	// slices are the levels of the slices that all of them are in; nil where they are in none, or in slices with others.
	slices []cellLevel
}

// ties returns the ties of the job: those that must share a domain, and those that prefer to; and the domains of those whose
// other members have a node. The levels with the most domains come last: a rack is looked for in the block that was chosen.
func (t *Placer) ties() (required, preferred []levelTie, settled regions) {
	t.sliced = t.slicedOf(t.minimum())
	settled, _ = t.settled(t.members)
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		if shared.SliceSize > 0 || t.session.Domains(shared.Level) == nil || shared.Preferred && hasBegun(t.job, shared) ||
			t.ask.SharedDomain(shared, 0) >= 0 && t.ask.As.Start.Shared != shared {
			continue
		}
		tie := levelTie{shared: shared, members: t.kindsOf(t.members, shared.Covers), levels: t.session.LevelsUpTo(shared.Level)}
		if tie.shapes = t.shapesOf(tie.members); len(tie.shapes) == 0 {
			continue
		}
		tie.needs = t.minimumOf(func(task *model.Task) bool { return tie.members[t.kinds.of(task)] })
		if shared.Preferred && !awaits(t.job, shared, t.session.Snapshot.Now) {
			tie.levels, tie.maySplit = append(tie.levels, t.session.LevelsAbove(shared.Level)...), true
			preferred = append(preferred, tie)
		} else {
			required = append(required, tie)
		}
	}
	for i := range t.sliced {
		if tie := t.nearSlices(&t.sliced[i]); tie != nil {
			preferred = append(preferred, *tie)
		}
	}
	byDomains := func(a, b levelTie) int {
		return cmp.Compare(t.session.Domains(a.shared.Level).Len(), t.session.Domains(b.shared.Level).Len())
	}
	slices.SortStableFunc(required, byDomains)
	slices.SortStableFunc(preferred, byDomains)
	return required, preferred, settled
}

// awaits reports whether members still wait for a domain that they prefer.
func awaits(job *model.Job, shared *model.TopologyConstraint, now time.Time) bool {
	return now.Before(waitsUntil(job, shared)) && !hasBegun(job, shared)
}

// hasBegun reports whether a member that the entry covers has a node, in whichever domain, or in none.
func hasBegun(job *model.Job, shared *model.TopologyConstraint) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool {
		return shared.Covers(task) && task.Status.HasNode() && task.Status != model.Releasing && !task.Deleted()
	})
}

// settled returns, for these members, the domains of ties whose other members have a node, and the entries of these ties.
func (t *Placer) settled(members []*model.Task) (settled regions, entries []*model.TopologyConstraint) {
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		level := t.session.Domains(shared.Level)
		if shared.SliceSize > 0 || shared.Preferred || level == nil {
			continue
		}
		if at := t.ask.SharedDomain(shared, 0); at >= 0 {
			settled, entries = settled.with(t.kindsOf(members, shared.Covers), level.Nodes(at)), append(entries, shared)
		}
	}
	return settled, entries
}

// nearSlices ties slices that no other entry keeps together to the level above their own, as if they preferred that; nil where
// there is none.
func (t *Placer) nearSlices(m *slicedMembers) *levelTie {
	above := t.session.LevelsAbove(m.entries[0].shared.Level)
	for i := range t.job.Topology {
		if shared := &t.job.Topology[i]; shared.SliceSize == 0 && slices.ContainsFunc(m.tasks, shared.Covers) {
			return nil
		}
	}
	if len(above) == 0 || !m.regular {
		return nil
	}
	tie := &levelTie{
		shared: &model.TopologyConstraint{Level: above[0].Level, Preferred: true}, maySplit: true, levels: above, needs: int64(len(m.tasks)),
		members: t.kindsOf(m.tasks, func(*model.Task) bool { return true }),
	}
	tie.shapes = t.shapesOf(tie.members)
	return tie
}

// kindsOf returns the kinds of those members for which a condition holds.
func (t *Placer) kindsOf(members []*model.Task, is func(*model.Task) bool) map[equivalenceClass]bool {
	kinds := map[equivalenceClass]bool{}
	for _, task := range members {
		if is(task) {
			kinds[t.kinds.of(task)] = true
		}
	}
	return kinds
}

// shapesOf returns the waiting members of those kinds by shape, in their order.
func (t *Placer) shapesOf(kinds map[equivalenceClass]bool) (shapes []tiedShape) {
	seen := map[equivalenceClass]bool{}
	for _, task := range t.members {
		of := t.kinds.of(task)
		if !kinds[of] {
			continue
		}
		i := slices.IndexFunc(shapes, func(one tiedShape) bool { return countsAlike(one.tasks[0], task) })
		if i < 0 {
			i = len(shapes)
			shapes = append(shapes, tiedShape{needs: t.minimumOf(func(other *model.Task) bool {
				return countsAlike(task, other) && kinds[t.kinds.of(other)]
			})})
		}
		if shapes[i].exists++; !seen[of] {
			seen[of] = true
			shapes[i].tasks = append(shapes[i].tasks, task)
		}
	}
	for i := range shapes {
		one := &shapes[i]
		each, table := t.fits(one.tasks)
		if one.fits = slices.Clone(each); table != nil { // tries change the table, and leave it to be updated
			one.table = func() *engine.Fits { return t.ask.Counts(one.tasks[0]) }
		}
		one.slices = t.slicesOf(one, kinds)
	}
	return shapes
}

// countsAlike reports whether two members are counted together: they have one shape, or volumes or claims of their own and the
// same request. Of the latter the nodes that they may use are not known by numbers.
func countsAlike(a, b *model.Task) bool {
	return a.Shape == b.Shape || hasOwnStorage(a) && hasOwnStorage(b) && a.Request.Equal(b.Request)
}

// fits returns how many members of one shape fit on each node, of which tasks are one of each kind. table has the same by domain,
// and is nil where they keep apart from each other.
func (t *Placer) fits(tasks []*model.Task) (each []int32, table *engine.Fits) {
	if len(hostPorts(tasks[0].Pod.Spec.Containers)) == 0 && len(mutualAntiAffinityKeys(tasks)) == 0 && !hasOwnStorage(tasks[0]) {
		table = t.ask.Counts(tasks[0])
		return table.Each(), table
	}
	each = make([]int32, len(t.session.Snapshot.Nodes))
	eligible := t.session.EligibleNodes(tasks[0])
	if hasOwnStorage(tasks[0]) {
		eligible = t.session.Snapshot.Nodes
	}
	for _, node := range eligible {
		each[node.Index] = int32(min(capacityFor(tasks, []*model.Node{node}, t.ask), math.MaxInt32))
	}
	return each, nil
}

// waitsUntil returns until when a job waits for a domain that it prefers; zero when it does not.
func waitsUntil(job *model.Job, shared *model.TopologyConstraint) (at time.Time) {
	if shared.WaitSeconds == 0 {
		return at
	}
	return job.QueuedSince.Add(time.Duration(shared.WaitSeconds) * time.Second)
}

// awaited returns the entry whose preferred domain the job waits for, that with the soonest end of several; nil when it waits for
// none.
func (t *Placer) awaited(required []levelTie) (shared *model.TopologyConstraint) {
	for i := range required {
		one := required[i].shared
		if one.WaitSeconds > 0 && (shared == nil || one.WaitSeconds < shared.WaitSeconds) {
			shared = one
		}
	}
	if shared != nil {
		t.session.Until(waitsUntil(t.job, shared))
	}
	return shared
}

// waitsFor adds to a refusal until when the job waits. No pod is evicted and no capacity reserved for what it only prefers.
func (t *Placer) waitsFor(refusal *model.Refusal, shared *model.TopologyConstraint) *model.Refusal {
	until := waitsUntil(t.job, shared).UTC().Format(time.RFC3339)
	waits := refusal.WithNote(fmt.Sprintf("it prefers one %s, and waits for that until %s", shared.Level, until))
	waits.Code, waits.Evictable = model.WaitingForDomain, false
	return waits
}

// capacities returns what fits into each domain of a level, by its number.
func (t *Placer) capacities(tie *levelTie, level *engine.Domains, chosen regions) []domainSet {
	sets := make([]domainSet, level.Len())
	for i := range sets {
		sets[i].domain = i
	}
	for i := range tie.shapes {
		one := &tie.shapes[i]
		for domain, fits := range t.sum(one, level, tie, chosen) {
			set := &sets[domain]
			set.lacks += max(0, one.needs-fits)
			set.fits += min(fits, one.exists)
			set.left += max(0, fits-one.exists)
		}
	}
	if len(tie.shapes) > 1 { // what one shape has room for is counted by now
		for i, most := range t.sumOfAll(tie, level, chosen) {
			sets[i].fits = min(sets[i].fits, most)
		}
	}
	for i := range sets {
		sets[i].lacks = max(sets[i].lacks, tie.needs-sets[i].fits)
	}
	return sets
}

// sumOfAll returns how many members of a tie fit into each domain of a level at most, whichever they are, inside the domains that
// were chosen. For one shape it is exact. Of several, those count on each node in whose place none would fit that requests less.
func (t *Placer) sumOfAll(tie *levelTie, level *engine.Domains, chosen regions) []int64 {
	if len(tie.shapes) == 1 {
		return t.sum(&tie.shapes[0], level, tie, chosen)
	}
	sums, list := make([]int64, level.Len()), t.inside(nil, tie.members, chosen)
	for i := range tie.shapes {
		smaller := tie.inPlaceOf(i)
		for _, node := range list {
			fits, domain := tie.shapes[i].fits[node], level.At(node)
			for _, other := range smaller {
				if other.fits[node] > 0 {
					fits = 0
				}
			}
			if domain >= 0 {
				sums[domain] += int64(fits)
			}
		}
	}
	return sums
}

// inPlaceOf returns the other shapes that request no more of anything than one of them, and of which numbers alone decide.
func (tie *levelTie) inPlaceOf(shape int) (smaller []*tiedShape) {
	request := tie.shapes[shape].tasks[0].Request
	for i := range tie.shapes {
		other := &tie.shapes[i]
		asks := other.tasks[0].Request
		if i != shape && other.table != nil && covers(request, asks) && (i < shape || !covers(asks, request)) {
			smaller = append(smaller, other)
		}
	}
	return smaller
}

// sum returns how many members of a shape fit into each domain of a level, inside the domains that were chosen.
func (t *Placer) sum(one *tiedShape, level *engine.Domains, tie *levelTie, chosen regions) []int64 {
	if one.table != nil && len(chosen) == 0 && one.slices == nil {
		return one.table().In(level)
	}
	return sumOver(one, level, t.inside(nil, tie.members, chosen))
}

// sumOver returns how many members of a shape fit into each domain of a level, on the nodes of the list, in their slices.
func sumOver(one *tiedShape, level *engine.Domains, list []int) []int64 {
	fits := make([]int64, level.Len())
	if one.slices != nil {
		for _, part := range divided(level.At, one.fits, list) {
			fits[level.At(part[0])] = newCell(one.slices, one.fits, part).holds
		}
		return fits
	}
	for _, node := range list {
		if domain := level.At(node); domain >= 0 {
			fits[domain] += int64(one.fits[node])
		}
	}
	return fits
}
