package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// ranking orders the nodes for one shape and one kind of capacity by what the node objects and the pods on each node say. The
// best is known immediately, and a change on one node costs O(log nodes).
//
// Invariant: after follow, the sums are what asking everything again would give.
type ranking struct {
	room model.CapacityKind
	mark model.Cursor
	// version is that of the static answers that the sums contain.
	version uint64
	// session is the one that checks and scores come from; they hold until it closes.
	session *Session
	checks  nodeQuery
	// bounded are local scores that need all candidates to be normalised; they are not in the sums.
	bounded []NodeScore
	refused *model.Refusal

	// tournament is of so many nodes, by their positions.
	winnerTree
	nodes int
}

// update brings the ranking up to date.
func (r *ranking) update(s *Session, task *model.Task, a *static) {
	if r.session != s {
		r.ask(s, task, a)
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
	r.rebuild()
	r.mark, r.version = journal.Cursor(), a.version // last, so that what a panic interrupts is begun again
}

// ask gets the questions that this session puts to a node.
func (r *ranking) ask(s *Session, task *model.Task, a *static) {
	r.session, r.checks, r.bounded = s, nodeQuery{}, nil
	if r.checks.checks, r.refused = s.checks(task, NodeWithPods); r.refused != nil {
		return
	}
	for _, score := range s.scores(task, NodeWithPods, a.candidates) {
		if score.Normalization == NormalizeNone {
			r.checks.perNode = append(r.checks.perNode, score)
		} else {
			r.bounded = append(r.bounded, score)
		}
	}
}

// combine adds what the pods on a node say to what the node objects do.
func (r *ranking) combine(task *model.Task, node *model.Node, static int32) int64 {
	if static == infeasible || node.InsufficientResource(task.Request, r.room) >= 0 || r.checks.check(node) != nil {
		return infeasible
	}
	return min(max(int64(static)+r.checks.score(node), infeasible+1), maxSum)
}

func (r *ranking) rankAll(task *model.Task, a *static) {
	if r.nodes != len(a.nodes) {
		r.nodes, r.winnerTree = len(a.nodes), newTournament(len(a.nodes))
	}
	for i, node := range a.nodes {
		r.set(i, r.combine(task, node, a.scoreOf(i)))
	}
}
