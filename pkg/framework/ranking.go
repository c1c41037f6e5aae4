package framework

import (
	"math"

	"github.com/tutti-sched/tutti/pkg/model"
)

// ranking orders the nodes for one shape and one kind of room by what the node objects and the pods on each node say. The
// best is known at once, and a change on one node costs O(log nodes).
//
// Invariant: after follow, keys are what asking everything anew would give.
type ranking struct {
	room model.Room
	mark model.Mark
	// version is that of the static answers that the keys contain.
	version uint64
	// session is the one that checks and scores come from; they hold until it closes.
	session *Session
	checks  placement
	// bounded are local scores that need all candidates to be normalised; they are not in the keys.
	bounded []NodeScore
	refused *model.Refusal

	// keys are the sums of weighted scores by node, or barred.
	keys []int64
	// winners is a tournament over the keys: the one at position p is the better of those at 2p and 2p+1, and from
	// len(keys) on stand the nodes themselves. Position 1 has the best of all.
	winners []int32
}

// barred is the key of a node that cannot take the task.
const barred = math.MinInt64

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
			r.keys[node.Index] = r.key(task, node, a.scores[node.Index])
			r.compete(node.Index)
		}
	}
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

// key adds what the pods on a node say to what the node objects do.
func (r *ranking) key(task *model.Task, node *model.Node, static int64) int64 {
	if static == barred || node.Lacking(task.Request, r.room) >= 0 || r.checks.check(node) != nil {
		return barred
	}
	return static + r.checks.score(node)
}

func (r *ranking) rankAll(task *model.Task, a *static) {
	if len(r.keys) != len(a.nodes) {
		r.keys, r.winners = make([]int64, len(a.nodes)), make([]int32, len(a.nodes))
	}
	for i, node := range a.nodes {
		r.keys[i] = r.key(task, node, a.scores[i])
	}
	for place := len(r.keys) - 1; place >= 1; place-- {
		r.winners[place] = r.better(2*place, 2*place+1)
	}
}

// compete lets a node whose key has changed win or lose its way up.
func (r *ranking) compete(position int) {
	for place := (len(r.keys) + position) / 2; place >= 1; place /= 2 {
		winner := r.better(2*place, 2*place+1)
		if r.winners[place] == winner && winner != int32(position) {
			return // it does not matter further up either
		}
		r.winners[place] = winner
	}
}

// better returns the node with the higher key of those at two places, the lower name among equals.
func (r *ranking) better(one, other int) int32 {
	a, b := r.at(one), r.at(other)
	switch {
	case r.keys[a] > r.keys[b]:
		return a
	case r.keys[a] < r.keys[b]:
		return b
	default:
		return min(a, b)
	}
}

func (r *ranking) at(place int) int32 {
	if place >= len(r.keys) {
		return int32(place - len(r.keys))
	}
	return r.winners[place]
}

// best returns the position of the best node; ok is false when none can take the task.
func (r *ranking) best() (position int, ok bool) {
	if len(r.keys) == 0 {
		return 0, false
	}
	winner := r.at(1)
	return int(winner), r.keys[winner] != barred
}
