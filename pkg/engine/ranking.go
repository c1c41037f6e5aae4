package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ranking orders the nodes for one shape and one kind of capacity by what the node objects and the pods on each node say. The
// best is known immediately, and a change on one node costs O(log nodes).
//
// Invariant: after update, the sums are what asking everything again would give.
type ranking struct {
	room model.CapacityKind
	mark model.Cursor
	// version is that of the static answers that the sums contain.
	version uint64
	// session is the one that checks and scores come from; they hold until it closes.
	session *Session
	checks  nodeQuery
	// bounded are local scores that need all candidates to be normalised; they are not in the sums.
	bounded []framework.NodeScore
	refused *model.Refusal
	// levels are those whose broken domains have points, which are in the sums.
	levels []followedLevel

	// winnerTree is of the first nodes positions.
	winnerTree
	nodes int
}

// update brings the ranking up to date.
func (r *ranking) update(s *Session, task *model.Task, a *static) {
	if r.session != s {
		r.ask(s, task, a)
	}
	for i := range r.levels {
		r.levels[i].level.updateUsed(s.Snapshot)
	}
	journal := &s.Snapshot.Journal
	changes, ok := journal.Since(r.mark)
	if !ok || r.version != a.version || len(changes) >= len(a.nodes) {
		r.rankAll(task, a)
		changes = nil
	}
	for i := range changes {
		// A node that changed again later is looked at only then.
		if node := changes[i].Node; node.Changed == r.mark.Number()+uint64(i)+1 {
			r.set(node.Index, r.combine(task, node, a.scoreOf(node.Index)))
		}
	}
	if !r.followLevels() { // after the changes, so that nodes which are full now are left out
		r.rankAll(task, a)
	}
	r.rebuild()
	r.mark, r.version = journal.Cursor(), a.version // last, so that what a panic interrupts is begun again
}

// followLevels changes the sums of the nodes in domains that turned whole or broken; it returns false when these may be all.
func (r *ranking) followLevels() bool {
	for i := range r.levels {
		if !r.levels[i].follow(&r.winnerTree) {
			return false
		}
	}
	return true
}

// ask gets the questions that this session puts to a node.
func (r *ranking) ask(s *Session, task *model.Task, a *static) {
	r.session, r.checks, r.bounded = s, nodeQuery{session: s}, nil
	if r.checks.checks, r.refused = s.checks(task, framework.NodeWithPods); r.refused != nil {
		r.levels = nil // they are of the nodes of an earlier session
		return
	}
	var levels []followedLevel
	for _, score := range s.scores(task, framework.NodeWithPods, a.candidates) {
		switch {
		case score.BrokenDomains:
			for _, level := range s.declaredLevels() {
				levels = append(levels, followedLevel{level: level, points: score.Weight * pointsPerLevel})
			}
		case score.Normalization == framework.NormalizeNone:
			r.checks.perNode = append(r.checks.perNode, score)
		default:
			r.bounded = append(r.bounded, score)
		}
	}
	same := func(a, b followedLevel) bool { return a.level == b.level && a.points == b.points }
	if !slices.EqualFunc(levels, r.levels, same) {
		r.levels, r.mark = levels, model.Cursor{} // so that all are ranked again
	}
}

// combine adds what the pods on a node say to what the node objects do.
func (r *ranking) combine(task *model.Task, node *model.Node, static int32) int64 {
	if static == infeasible || !node.Free(r.room).Fits(task.Request) || r.checks.check(node) != nil {
		return infeasible
	}
	sum := int64(static) + r.checks.score(node)
	for i := range r.levels {
		sum += r.levels[i].pointsOf(node.Index)
	}
	return min(max(sum, infeasible+1), maxSum)
}

func (r *ranking) rankAll(task *model.Task, a *static) {
	if r.nodes != len(a.nodes) {
		r.nodes, r.winnerTree = len(a.nodes), newTournament(len(a.nodes))
	}
	for i := range r.levels {
		r.levels[i].reset()
	}
	for i, node := range a.nodes {
		r.set(i, r.combine(task, node, a.scoreOf(i)))
	}
}
