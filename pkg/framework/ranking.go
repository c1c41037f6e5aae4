package framework

import (
	"math"

	"github.com/tutti-sched/tutti/pkg/model"
)

// ranking orders the nodes for one shape and one kind of room by what the node objects and the pods on each node say. The
// best is known at once, and a change on one node costs O(log nodes).
//
// Invariant: after follow, the sums are what asking everything anew would give.
type ranking struct {
	room model.Room
	mark model.Mark
	// version is that of the static answers that the sums contain.
	version uint64
	// session is the one that checks and scores come from; they hold until it closes.
	session *Session
	checks  placement
	// bounded are local scores that need all candidates to be normalised; they are not in the sums.
	bounded []NodeScore
	refused *model.Refusal

	// levels are a tournament: the first has the nodes, each entry of the next the best of a group of the one before, and the
	// last one entry.
	levels [][]entry
	// fresh is room to work in.
	fresh []fresh
}

// group is how many entries compete for one of the next level: as many as lie in one line of a processor's cache.
const group = 8

// entry is a node in the tournament: the sum of its weighted scores and its position in one number, so that the greater is
// the better, and the lower name among equals.
type entry int64

// barred is the sum of a node that cannot take the task. Sums are kept between it and most, which no weights that a
// configuration may have lead to.
const (
	barred = math.MinInt32
	most   = math.MaxInt32
)

func newEntry(sum int64, position int) entry {
	return entry(sum<<32 | int64(math.MaxUint32-uint32(position)))
}

func (e entry) sum() int64 { return int64(e) >> 32 }

func (e entry) position() int { return int(math.MaxUint32 - uint32(e)) }

// follow brings the ranking up to date.
func (r *ranking) follow(s *Session, task *model.Task, a *static) {
	if r.session != s {
		r.ask(s, task, a)
	}
	journal := &s.Snapshot.Journal
	changes, ok := journal.Since(r.mark)
	before := r.mark.Number()
	r.mark = journal.Mark()
	if !ok || r.version != a.version || len(changes) >= len(a.nodes) {
		r.version = a.version
		r.rankAll(task, a)
		return
	}
	// In three passes, since each reads something else from memory, and waits for it: once for all nodes, not for each again.
	r.fresh = r.fresh[:0]
	for i := range changes {
		// A node that changed again later is looked at only then.
		if node := changes[i].Node; node.Changed == before+uint64(i)+1 {
			r.fresh = append(r.fresh, fresh{node: node, static: a.of(node.Index)})
		}
	}
	for i := range r.fresh {
		f := &r.fresh[i]
		f.sum = r.sum(task, f.node, f.static)
	}
	for i := range r.fresh {
		r.set(r.fresh[i].node.Index, r.fresh[i].sum)
	}
}

// fresh is a node that has changed.
type fresh struct {
	node   *model.Node
	static int32
	sum    int64
}

// ask gets the questions that this session puts to a node.
func (r *ranking) ask(s *Session, task *model.Task, a *static) {
	r.session, r.checks, r.bounded = s, placement{}, nil
	if r.checks.checks, r.refused = s.checks(task, Local); r.refused != nil {
		return
	}
	for _, score := range s.scores(task, Local, a.candidates) {
		if score.Normalization == AsIs {
			r.checks.perNode = append(r.checks.perNode, score)
		} else {
			r.bounded = append(r.bounded, score)
		}
	}
}

// sum adds what the pods on a node say to what the node objects do.
func (r *ranking) sum(task *model.Task, node *model.Node, static int32) int64 {
	if static == barred || node.Lacking(task.Request, r.room) >= 0 || r.checks.check(node) != nil {
		return barred
	}
	return min(max(int64(static)+r.checks.score(node), barred+1), most)
}

func (r *ranking) rankAll(task *model.Task, a *static) {
	if len(r.levels) == 0 || len(r.levels[0]) != len(a.nodes) {
		r.levels = levelsFor(len(a.nodes))
	}
	for i, node := range a.nodes {
		r.levels[0][i] = newEntry(r.sum(task, node, a.of(i)), i)
	}
	for next := 1; next < len(r.levels); next++ {
		for i := range r.levels[next] {
			r.levels[next][i] = r.winner(next-1, i)
		}
	}
}

func levelsFor(nodes int) [][]entry {
	levels := [][]entry{make([]entry, nodes)}
	for nodes > 1 {
		nodes = (nodes + group - 1) / group
		levels = append(levels, make([]entry, nodes))
	}
	return levels
}

// winner returns the best of a group of one level.
func (r *ranking) winner(level, number int) entry {
	entries := r.levels[level]
	entries = entries[number*group : min((number+1)*group, len(entries))]
	best := entries[0]
	for _, e := range entries[1:] {
		best = max(best, e)
	}
	return best
}

// set lets a node win or lose its way up with a new sum, as far as that changes anything.
func (r *ranking) set(position int, sum int64) {
	best := newEntry(sum, position)
	for level := 0; level < len(r.levels) && r.levels[level][position] != best; level++ {
		r.levels[level][position] = best
		if position /= group; level+1 < len(r.levels) {
			best = r.winner(level, position)
		}
	}
}

// at returns the sum of a node, barred when it cannot take the task.
func (r *ranking) at(position int) int64 { return r.levels[0][position].sum() }

// best returns the position of the best node; ok is false when none can take the task.
func (r *ranking) best() (position int, ok bool) {
	if len(r.levels) == 0 || len(r.levels[0]) == 0 {
		return 0, false
	}
	best := r.levels[len(r.levels)-1][0]
	return best.position(), best.sum() != barred
}
