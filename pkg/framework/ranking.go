package framework

import (
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

	// tournament is of so many nodes, by their positions.
	tournament
	nodes int
}

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
	for i := range changes {
		// A node that changed again later is looked at only then.
		if node := changes[i].Node; node.Changed == before+uint64(i)+1 {
			r.enter(node.Index, r.sum(task, node, a.of(node.Index)))
		}
	}
	r.play()
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
	if r.nodes != len(a.nodes) {
		r.nodes, r.tournament = len(a.nodes), newTournament(len(a.nodes))
	}
	for i, node := range a.nodes {
		r.enter(i, r.sum(task, node, a.of(i)))
	}
	r.play()
}
