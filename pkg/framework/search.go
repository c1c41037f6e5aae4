package framework

import (
	"slices"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds nodes for tasks. What depends on a task's shape and on each node alone is kept in the session's Memory,
// in order; what depends on anything else is asked for each task.

// Choose returns the best node with that kind of room for the task: the highest sum of weighted scores, ties to the lower
// name. within narrows the nodes; nil means all. When there is none it returns nil and why, node by node.
func (s *Session) Choose(
	task *model.Task, room model.Room, within func(*model.Node) bool,
) (*model.Node, *model.Tally) {
	s.lookFor(task, room)
	if alone := s.leftAlone(task.Job); alone != nil {
		tally := &model.Tally{}
		tally.CountAll(alone, len(s.Snapshot.Nodes))
		return nil, tally
	}
	if s.options.Afresh {
		return s.chooseAfresh(task, room, within)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		tally := &model.Tally{}
		tally.CountAll(refused, len(s.Snapshot.Nodes))
		return nil, tally
	}
	if _, any := order.best(); any { // when there is no room at all, nobody has to say where it would be best
		s.rank(&question, task, answer, order)
		if best := s.best(answer, order, &question, within); best != nil {
			return best, nil
		}
	}
	return nil, s.explain(task, room, answer, order, &question)
}

func (s *Session) best(
	answer *static, order *ranking, question *placement, within func(*model.Node) bool,
) *model.Node {
	if within == nil && question.empty() {
		if position, ok := order.best(); ok {
			return answer.nodes[position]
		}
		return nil
	}
	ordered, tried := !question.scores(), 0
	if within == nil && ordered { // checks may be expensive, and mostly one of the first will do
		for position := range order.down() {
			if node := answer.nodes[position]; question.check(node) == nil {
				return node
			}
			if tried++; tried == mostInOrder {
				break
			}
		}
	}
	var best *model.Node
	var bestScore int64
	for i, position := range answer.positions {
		score := order.at(position)
		if score == barred || ordered && best != nil && score <= bestScore {
			continue
		}
		node := answer.candidates[i]
		if within != nil && !within(node) || question.check(node) != nil {
			continue
		}
		if score += question.score(node) + question.bound(i); best == nil || score > bestScore {
			best, bestScore = node, score
		}
	}
	return best
}

// mostInOrder is how many nodes are asked in their order before all are, in that of their names: to keep the order costs more.
const mostInOrder = 16

// Feasible returns every node with that kind of room for the task, by name.
func (s *Session) Feasible(task *model.Task, room model.Room) []*model.Node {
	s.lookFor(task, room)
	if s.leftAlone(task.Job) != nil {
		return nil
	}
	if s.options.Afresh {
		return s.feasibleAfresh(task, room)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		return nil
	}
	var nodes []*model.Node
	for i, position := range answer.positions {
		if node := answer.candidates[i]; order.at(position) != barred && question.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Fits tells whether the node has that kind of room for the task and passes every filter.
func (s *Session) Fits(task *model.Task, node *model.Node, room model.Room) bool {
	s.lookFor(task, room)
	if s.leftAlone(task.Job) != nil {
		return false
	}
	if s.options.Afresh {
		return slices.Contains(s.feasibleAfresh(task, room), node)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	return refused == nil && order.at(node.Index) != barred && question.check(node) == nil
}

// Plain tells whether, as the session stands, nothing but the task's shape and the room on each node decides where it may
// go: what holds for it holds for every task of its shape that is plain too, and for the others all the more.
func (s *Session) Plain(task *model.Task) bool {
	if s.current = task.Job; s.leftAlone(task.Job) != nil {
		return false
	}
	s.Snapshot.LookAhead(false) // who is about to leave may keep others away still
	for _, scope := range []Scope{Local, Global} {
		if checks, refused := s.checks(task, scope); len(checks) > 0 || refused != nil {
			return false
		}
	}
	return true
}

// SelfContained tells whether where the task may go follows from the snapshot alone: as long as that is the same, so is the answer.
func (s *Session) SelfContained(task *model.Task) bool {
	if s.current = task.Job; s.leftAlone(task.Job) != nil {
		return false
	}
	s.Snapshot.LookAhead(false) // as Plain does
	for _, filter := range s.slots.nodeFilter {
		if knows, ok := filter.(SelfContained); ok && knows.SelfContained(task) {
			continue
		}
		if checks, refused := filter.FilterFor(task, Global); len(checks) > 0 || refused != nil {
			return false
		}
	}
	return true
}

// Candidates returns the nodes that could run the task were they empty, by name. The slice must not be changed.
func (s *Session) Candidates(task *model.Task) []*model.Node {
	if s.current = task.Job; s.leftAlone(task.Job) != nil {
		return nil
	}
	known := s.memory.known(task.Shape, len(s.Snapshot.Nodes))
	known.static.follow(s, task)
	return known.static.candidates
}

// ranked returns what is known of the task's shape, brought up to date.
func (s *Session) ranked(task *model.Task, room model.Room) (*static, *ranking) {
	known := s.memory.known(task.Shape, len(s.Snapshot.Nodes))
	known.static.follow(s, task)
	if known.rankings[room] == nil {
		known.rankings[room] = &ranking{room: room}
	}
	if known.static.refused == nil {
		known.rankings[room].follow(s, task, &known.static)
	}
	return &known.static, known.rankings[room]
}

// explain counts what kept the task from each node.
func (s *Session) explain(
	task *model.Task, room model.Room, answer *static, order *ranking, question *placement,
) *model.Tally {
	tally := &model.Tally{}
	tally.Merge(&answer.ruledOut)
	lack := make([]int, s.Snapshot.Dimensions.Len()) // how many nodes lack it, for they are many
	var near nearest
	for _, node := range answer.candidates {
		if lacking := s.Snapshot.Dimensions.Lacking(node, task.Request, room); lacking >= 0 {
			near.look(node, task.Request, room)
			if told := s.tellLack(task, node, lacking, room); told != nil {
				tally.Count(told)
			} else {
				lack[lacking]++
			}
			continue
		}
		refusal := order.checks.check(node)
		if refusal == nil {
			refusal = question.check(node)
		}
		tally.Count(refusal)
	}
	for position, nodes := range lack {
		if nodes > 0 {
			tally.CountAll(s.lacking(position), nodes)
		}
	}
	near.tell(s.Snapshot.Dimensions, tally, lack, task.Request, room)
	return tally
}

// placement is a set of questions about a task and its candidates.
type placement struct {
	checks []NodeCheck
	// perNode are scores that need no bounds; they are asked only about nodes that pass.
	perNode []NodeScore
	// bounded are the weighted scores that were normalised over all candidates, by candidate.
	bounded []int64
}

// question is what must hold for the task besides what its ranking knows.
func (s *Session) question(task *model.Task, answer *static, order *ranking) (p placement, refused *model.Refusal) {
	if answer.refused != nil {
		return p, answer.refused
	}
	if order.refused != nil {
		return p, order.refused
	}
	p.checks, refused = s.checks(task, Global)
	return p, refused
}

// rank adds how the candidates are liked besides what the ranking knows.
func (s *Session) rank(p *placement, task *model.Task, answer *static, order *ranking) {
	p.add(order.bounded, answer.candidates)
	p.add(s.scores(task, Global, answer.candidates), answer.candidates)
}

func (p *placement) add(scores []NodeScore, candidates []*model.Node) {
	for _, score := range scores {
		if score.Normalization == AsIs {
			p.perNode = append(p.perNode, score)
			continue
		}
		if p.bounded == nil {
			p.bounded = make([]int64, len(candidates))
		}
		addScore(p.bounded, score, candidates)
	}
}

func (p *placement) empty() bool { return len(p.checks) == 0 && !p.scores() }

// scores tells whether the order of the nodes depends on the answers.
func (p *placement) scores() bool { return len(p.perNode) > 0 || p.bounded != nil }

func (p *placement) check(node *model.Node) *model.Refusal {
	for _, check := range p.checks {
		if refusal := check(node); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (p *placement) score(node *model.Node) int64 {
	var sum int64
	for i := range p.perNode {
		sum += p.perNode[i].Weight * p.perNode[i].Raw(node)
	}
	return sum
}

func (p *placement) bound(candidate int) int64 {
	if p.bounded == nil {
		return 0
	}
	return p.bounded[candidate]
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

// checks returns what the plugins want to hold of a node for the task, and, while that is asked for, that it is not avoided.
func (s *Session) checks(task *model.Task, scope Scope) ([]NodeCheck, *model.Refusal) {
	var all []NodeCheck
	if s.avoiding && scope == Global {
		if avoided := s.Snapshot.Avoided[task.Job]; len(avoided) > 0 {
			all = append(all, func(node *model.Node) *model.Refusal { return avoided[node.Name] })
		}
	}
	for _, filter := range s.slots.nodeFilter {
		start := s.start()
		checks, refusal := filter.FilterFor(task, scope)
		s.stop(filter, config.NodeFilter, start)
		if scope == Global && (len(checks) > 0 || refusal != nil) {
			s.narrow(reachOf(filter, task))
		}
		if refusal != nil {
			return nil, refusal
		}
		all = append(all, s.timedChecks(filter, checks)...)
	}
	return all, nil
}

// reachOf returns for whom a verdict holds in which a filter's global checks have a part.
func reachOf(filter NodeFilter, task *model.Task) Reach {
	if knows, ok := filter.(SelfContained); ok && knows.SelfContained(task) {
		return ForJob
	}
	return ForNow
}

func (s *Session) scores(task *model.Task, scope Scope, candidates []*model.Node) []NodeScore {
	var all []NodeScore
	for _, scorer := range s.slots.nodeScore {
		start := s.start()
		scores := scorer.ScoresFor(task, scope, candidates)
		s.stop(scorer, config.NodeScore, start)
		if scope == Global && len(scores) > 0 {
			s.narrow(ForJob)
		}
		all = append(all, s.timedScores(scorer, scores)...)
	}
	return all
}

func noNodes() *model.Refusal {
	return &model.Refusal{Code: model.NodesFiltered, Detail: "the cluster has no nodes"}
}

// lacking returns the refusal of a node that lacks one resource, made once.
func (s *Session) lacking(position int) *model.Refusal {
	for len(s.lacks) < s.Snapshot.Dimensions.Len() {
		s.lacks = append(s.lacks, &model.Refusal{
			Code:      model.InsufficientResources,
			Detail:    string(s.Snapshot.Dimensions.Name(len(s.lacks))),
			Evictable: true,
		})
	}
	return s.lacks[position]
}
