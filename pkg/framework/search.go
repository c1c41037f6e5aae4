package framework

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// search finds nodes for tasks and remembers, for the session, what depends on a task's shape alone.
type search struct {
	static map[model.Shape]*staticAnswer
	lacks  []*model.Refusal
}

// maxShapes bounds what one session remembers; past it everything is asked anew, which costs time and nothing else.
const maxShapes = 512

// staticAnswer is what the node objects say about a shape, whatever runs on them.
type staticAnswer struct {
	// refused says that no node can do; nil when some may.
	refused *model.Refusal
	// candidates pass all static checks, by name; scores are theirs, weighted and normalised over all of them.
	candidates []*model.Node
	scores     []int64
	// ruledOut counts why the other nodes are not candidates.
	ruledOut model.Tally
}

// Choose returns the best node with that kind of room for the task: the highest sum of weighted scores, ties to the lower
// name. within narrows the nodes; nil means all. When there is none it returns nil and why, node by node.
func (s *Session) Choose(
	task *model.Task, room model.Room, within func(*model.Node) bool,
) (*model.Node, *model.Tally) {
	answer := s.staticAnswer(task)
	question, refused := s.question(task, answer)
	if refused != nil {
		tally := &model.Tally{}
		tally.CountAll(refused, len(s.Snapshot.Nodes))
		return nil, tally
	}
	var best *model.Node
	var bestScore int64
	for i, node := range answer.candidates {
		if node.Lacking(task.Request, room) >= 0 || within != nil && !within(node) || question.check(node) != nil {
			continue
		}
		if score := answer.scores[i] + question.score(i, node); best == nil || score > bestScore {
			best, bestScore = node, score
		}
	}
	if best != nil {
		return best, nil
	}
	return nil, s.explain(task, room, answer, question)
}

// Feasible returns every node with that kind of room for the task, by name.
func (s *Session) Feasible(task *model.Task, room model.Room) []*model.Node {
	answer := s.staticAnswer(task)
	question, refused := s.question(task, answer)
	if refused != nil {
		return nil
	}
	var nodes []*model.Node
	for _, node := range answer.candidates {
		if node.Lacking(task.Request, room) < 0 && question.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Plain tells whether, as the session stands, nothing but the task's shape and the room on each node decides where it may
// go: what holds for it holds for every task of its shape that is plain too, and for the others all the more.
func (s *Session) Plain(task *model.Task) bool {
	for _, scope := range []Scope{Local, Global} {
		if checks, refused := s.checks(task, scope); len(checks) > 0 || refused != nil {
			return false
		}
	}
	return true
}

// Candidates returns the nodes that could run the task were they empty, by name. The slice must not be changed.
func (s *Session) Candidates(task *model.Task) []*model.Node { return s.staticAnswer(task).candidates }

// explain counts what kept the task from each node.
func (s *Session) explain(task *model.Task, room model.Room, answer *staticAnswer, question placement) *model.Tally {
	tally := &model.Tally{}
	tally.Merge(&answer.ruledOut)
	for _, node := range answer.candidates {
		if lacking := s.Snapshot.Dimensions.Lacking(node, task.Request, room); lacking >= 0 {
			tally.Count(s.search.lacking(s.Snapshot.Dimensions, lacking))
			continue
		}
		tally.Count(question.check(node))
	}
	return tally
}

// placement is everything that is asked about one task and its candidates beyond the static answer.
type placement struct {
	checks []NodeCheck
	// perNode are scores that need no bounds; they are asked only about nodes that pass.
	perNode []NodeScore
	// bounded are the weighted scores that were normalised over all candidates, by candidate.
	bounded []int64
}

func (s *Session) question(task *model.Task, answer *staticAnswer) (placement, *model.Refusal) {
	var p placement
	if answer.refused != nil {
		return p, answer.refused
	}
	for _, scope := range []Scope{Local, Global} {
		checks, refused := s.checks(task, scope)
		if refused != nil {
			return p, refused
		}
		p.checks = append(p.checks, checks...)
	}
	for _, scope := range []Scope{Local, Global} {
		for _, score := range s.scores(task, scope, answer.candidates) {
			if score.Normalization == AsIs {
				p.perNode = append(p.perNode, score)
				continue
			}
			if p.bounded == nil {
				p.bounded = make([]int64, len(answer.candidates))
			}
			addScore(p.bounded, score, answer.candidates)
		}
	}
	return p, nil
}

func (p *placement) check(node *model.Node) *model.Refusal {
	for _, check := range p.checks {
		if refusal := check(node); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (p *placement) score(i int, node *model.Node) int64 {
	var sum int64
	for _, score := range p.perNode {
		sum += score.Weight * score.Raw(node)
	}
	if p.bounded != nil {
		sum += p.bounded[i]
	}
	return sum
}

// addScore adds one score, weighted and normalised over the candidates, to their sums.
func addScore(sums []int64, score NodeScore, candidates []*model.Node) {
	raw := make([]int64, len(candidates))
	for i, node := range candidates {
		raw[i] = score.Raw(node)
	}
	normalize(raw, score.Normalization)
	for i := range raw {
		sums[i] += score.Weight * raw[i]
	}
}

func (s *Session) checks(task *model.Task, scope Scope) ([]NodeCheck, *model.Refusal) {
	var all []NodeCheck
	refused := firstRefusal(s.slots.nodeFilter, func(filter NodeFilter) *model.Refusal {
		checks, refusal := filter.FilterFor(task, scope)
		all = append(all, checks...)
		return refusal
	})
	return all, refused
}

func (s *Session) scores(task *model.Task, scope Scope, candidates []*model.Node) []NodeScore {
	var all []NodeScore
	for _, scorer := range s.slots.nodeScore {
		all = append(all, scorer.ScoresFor(task, scope, candidates)...)
	}
	return all
}

// staticAnswer returns what is remembered of the task's shape, or asks and remembers it.
func (s *Session) staticAnswer(task *model.Task) *staticAnswer {
	if answer, ok := s.search.static[task.Shape]; ok {
		return answer
	}
	if s.search.static == nil || len(s.search.static) >= maxShapes {
		s.search.static = map[model.Shape]*staticAnswer{}
	}
	answer := s.askStatic(task)
	s.search.static[task.Shape] = answer
	return answer
}

func (s *Session) askStatic(task *model.Task) *staticAnswer {
	answer := &staticAnswer{}
	checks, refused := s.checks(task, Static)
	if len(s.Snapshot.Nodes) == 0 {
		refused = &model.Refusal{Code: model.NodesFiltered, Detail: "the cluster has no nodes"}
	}
	if refused != nil {
		answer.refused = refused
		return answer
	}
	asked := placement{checks: checks}
	for _, node := range s.Snapshot.Nodes {
		refusal := node.Refused
		if refusal == nil {
			refusal = asked.check(node)
		}
		if refusal != nil {
			answer.ruledOut.Count(refusal)
			continue
		}
		answer.candidates = append(answer.candidates, node)
	}
	answer.scores = make([]int64, len(answer.candidates))
	for _, score := range s.scores(task, Static, answer.candidates) {
		addScore(answer.scores, score, answer.candidates)
	}
	return answer
}

// lacking returns the refusal of a node that lacks one resource, made once.
func (s *search) lacking(dimensions *model.Dimensions, position int) *model.Refusal {
	for len(s.lacks) < dimensions.Len() {
		s.lacks = append(s.lacks, &model.Refusal{
			Code:      model.InsufficientResources,
			Detail:    string(dimensions.Name(len(s.lacks))),
			Evictable: true,
		})
	}
	return s.lacks[position]
}
