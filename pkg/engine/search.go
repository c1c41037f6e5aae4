package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds nodes for tasks. What depends on a task's shape and on each node alone is kept in the session's Cache,
// in order; what depends on anything else is asked for each task.

// SelectNode returns the best node with that kind of capacity for the task: the highest sum of weighted scores, ties to the
// lower name. within narrows the nodes; nil means all. When there is none it returns nil and why, node by node.
func (s *Session) SelectNode(
	task *model.Task, room model.CapacityKind, within func(*model.Node) bool,
) (*model.Node, *model.NodeDiagnosis) {
	s.prepareFor(task, room)
	if alone := s.quarantined[task.Job]; alone != nil {
		tally := &model.NodeDiagnosis{}
		tally.AddN(alone, len(s.Snapshot.Nodes))
		return nil, tally
	}
	if s.options.Afresh {
		return s.chooseUncached(task, room, within)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		tally := &model.NodeDiagnosis{}
		tally.AddN(refused, len(s.Snapshot.Nodes))
		return nil, tally
	}
	if best := s.rankedBest(task, answer, order, &question, within); best != nil {
		return best, nil
	}
	return nil, s.explain(task, room, answer, order, &question)
}

// SelectAmong returns the best of some nodes, by their indexes in ascending order; nil when there is none.
func (s *Session) SelectAmong(task *model.Task, room model.CapacityKind, nodes []int) *model.Node {
	s.prepareFor(task, room)
	if s.quarantined[task.Job] != nil {
		return nil
	}
	if s.options.Afresh {
		best, _ := s.chooseUncached(task, room, func(node *model.Node) bool {
			_, is := slices.BinarySearch(nodes, node.Index)
			return is
		})
		return best
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		return nil
	}
	if _, any := order.best(); !any {
		return nil
	}
	s.rank(&question, task, answer, order)
	return s.bestAmong(answer, order, &question, nodes)
}

func (s *Session) bestAmong(answer *static, order *ranking, question *nodeQuery, nodes []int) (best *model.Node) {
	var bestScore int64
	limit := int64(infeasible) // nodes with no more than that are not looked at
	for i := 0; i < len(nodes); i++ {
		if skipped := order.below(nodes[i:], limit); skipped > 0 {
			i += skipped - 1
			continue
		}
		position := nodes[i]
		score := order.at(position)
		if score <= limit {
			continue
		}
		node := answer.nodes[position]
		if question.check(node) != nil {
			continue
		}
		if question.scores() {
			candidate, _ := slices.BinarySearch(answer.positions, position)
			score += question.score(node) + question.bound(candidate)
		}
		if best == nil || score > bestScore {
			best, bestScore = node, score
		}
		if !question.scores() {
			limit = bestScore
		}
	}
	return best
}

// BestNode returns the best node like SelectNode, without saying why there is none, which costs a look at every node.
func (s *Session) BestNode(task *model.Task, room model.CapacityKind) *model.Node {
	s.prepareFor(task, room)
	if s.quarantined[task.Job] != nil {
		return nil
	}
	if s.options.Afresh {
		best, _ := s.chooseUncached(task, room, nil)
		return best
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		return nil
	}
	return s.rankedBest(task, answer, order, &question, nil)
}

// HasRoom reports whether any node has that kind of capacity for tasks of the shape, as far as each node alone decides. Without
// it none of them has a place, whatever else restricts them.
func (s *Session) HasRoom(task *model.Task, room model.CapacityKind) bool {
	s.prepareFor(task, room)
	if s.options.Afresh || s.quarantined[task.Job] != nil {
		return true // unknown
	}
	_, order := s.ranked(task, room)
	_, any := order.best()
	return any
}

func (s *Session) rankedBest(
	task *model.Task, answer *static, order *ranking, question *nodeQuery, within func(*model.Node) bool,
) *model.Node {
	if _, any := order.best(); !any { // when no node has capacity, no scores are needed
		return nil
	}
	s.rank(question, task, answer, order)
	return s.best(answer, order, question, within)
}

func (s *Session) best(
	answer *static, order *ranking, question *nodeQuery, within func(*model.Node) bool,
) *model.Node {
	if within == nil && question.isEmpty() {
		if position, ok := order.best(); ok {
			return answer.nodes[position]
		}
		return nil
	}
	ordered, tried := !question.scores(), 0
	if within == nil && ordered { // checks may be expensive, and mostly one of the first will do
		for position := range order.descending() {
			if node := answer.nodes[position]; question.check(node) == nil {
				return node
			}
			if tried++; tried == maxOrderedNodes {
				break
			}
		}
	}
	var best *model.Node
	var bestScore int64
	for i, position := range answer.positions {
		score := order.at(position)
		if score == infeasible || ordered && best != nil && score <= bestScore {
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

// maxOrderedNodes is how many nodes are asked in their order before all are, in that of their names: to keep the order costs
// more.
const maxOrderedNodes = 16

// Feasible returns every node with that kind of capacity for the task, by name.
func (s *Session) Feasible(task *model.Task, room model.CapacityKind) []*model.Node {
	s.prepareFor(task, room)
	if s.quarantined[task.Job] != nil {
		return nil
	}
	if s.options.Afresh {
		return s.feasibleUncached(task, room)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	if refused != nil {
		return nil
	}
	var nodes []*model.Node
	for i, position := range answer.positions {
		if node := answer.candidates[i]; order.at(position) != infeasible && question.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// FeasibleOn reports whether the node has that kind of capacity for the task and passes every filter.
func (s *Session) FeasibleOn(task *model.Task, node *model.Node, room model.CapacityKind) bool {
	s.prepareFor(task, room)
	if s.quarantined[task.Job] != nil {
		return false
	}
	if s.options.Afresh {
		return slices.Contains(s.feasibleUncached(task, room), node)
	}
	answer, order := s.ranked(task, room)
	question, refused := s.question(task, answer, order)
	return refused == nil && order.at(node.Index) != infeasible && question.check(node) == nil
}

// FitsByResourcesOnly reports whether, as the session stands, nothing but the task's shape and the capacity on each node decides
// where it may go: what holds for it holds for every task of its shape that is plain too, and for the others all the more. Of a
// task that is confined to a domain it answers for the nodes of the domain.
func (s *Session) FitsByResourcesOnly(task *model.Task) bool {
	if s.currentJob = task.Job; s.quarantined[task.Job] != nil {
		return false
	}
	s.Snapshot.ExcludeTerminating(false) // a terminating task may keep others away still
	hold := s.confinedChecks(task)
	for _, scope := range []framework.FilterScope{framework.NodeWithPods, framework.ClusterWide} {
		checks, refused := s.checks(task, scope)
		if hold -= len(checks); hold < 0 || refused != nil {
			return false
		}
	}
	return true
}

// IsPlainInDomain reports whether, as the session stands, nothing decides where the task may go but what FitsByResourcesOnly
// means and the domains that it shares: what holds for it holds for every plain task of its shape that shares the same.
func (s *Session) IsPlainInDomain(task *model.Task) bool {
	if s.currentJob = task.Job; s.quarantined[task.Job] != nil {
		return false
	}
	s.Snapshot.ExcludeTerminating(false) // as FitsByResourcesOnly does
	checks, refused := s.checks(task, framework.NodeWithPods)
	if len(checks) > 0 || refused != nil {
		return false
	}
	checks, refused = s.checks(task, framework.ClusterWide)
	return len(checks) == len(s.domainChecks(task)) && refused == nil
}

// FiltersDependOnSnapshotOnly reports whether where the task may go follows from the snapshot alone: as long as that is the
// same, so is the answer.
func (s *Session) FiltersDependOnSnapshotOnly(task *model.Task) bool {
	if s.currentJob = task.Job; s.quarantined[task.Job] != nil {
		return false
	}
	s.Snapshot.ExcludeTerminating(false) // as FitsByResourcesOnly does
	for _, filter := range s.slots.nodeFilter {
		if knows, ok := filter.(framework.SnapshotOnlyFilter); ok && knows.DependsOnSnapshotOnly(task) {
			continue
		}
		if checks, refused := filter.PreFilter(task, framework.ClusterWide); len(checks) > 0 || refused != nil {
			return false
		}
	}
	return true
}

// EligibleNodes returns the nodes that could run the task were they empty, by name. The slice must not be changed.
func (s *Session) EligibleNodes(task *model.Task) []*model.Node {
	if known := s.eligibility(task); known != nil {
		return known.candidates
	}
	return nil
}

// RuledOut counts the other nodes by the reason for which they could not run the task, most frequent first.
func (s *Session) RuledOut(task *model.Task) []model.NodeReason {
	if known := s.eligibility(task); known != nil {
		return known.ruledOut.Causes()
	}
	return nil
}

// eligibility returns which nodes could run the task were they empty, and why not the others; nil where its job has panicked.
func (s *Session) eligibility(task *model.Task) *static {
	if s.currentJob = task.Job; s.quarantined[task.Job] != nil {
		return nil
	}
	known := s.cache.lookup(task.Shape, len(s.Snapshot.Nodes))
	known.static.update(s, task)
	return &known.static
}

// ranked returns what is known of the task's shape, brought up to date.
func (s *Session) ranked(task *model.Task, room model.CapacityKind) (*static, *ranking) {
	known := s.cache.lookup(task.Shape, len(s.Snapshot.Nodes))
	known.static.update(s, task)
	order := &known.rankings[room][0]
	if s.NamesLevels(task) {
		order = &known.rankings[room][1]
	}
	if *order == nil {
		*order = &ranking{room: room}
	}
	if known.static.refused == nil {
		(*order).update(s, task, &known.static)
	}
	return &known.static, *order
}

// explain counts what kept the task from each node.
func (s *Session) explain(
	task *model.Task, room model.CapacityKind, answer *static, order *ranking, question *nodeQuery,
) *model.NodeDiagnosis {
	tally := &model.NodeDiagnosis{}
	tally.Merge(&answer.ruledOut)
	dimensions := s.Snapshot.Dimensions.For(task)
	lack, absent := make([]int, dimensions.Len()), make([]int, dimensions.Len()) // how many nodes lack it, and of these have none
	refused := func(node *model.Node) *model.Refusal {
		if refusal := order.checks.check(node); refusal != nil {
			return refusal
		}
		return question.check(node)
	}
	var near closestFit
	for _, node := range answer.candidates {
		lacking := dimensions.InsufficientResource(node, task.Request, room)
		if lacking < 0 {
			tally.Add(refused(node))
			continue
		}
		none := hasNone(node, lacking)
		if !none {
			near.observe(node, task.Request, room, refused)
		}
		if shortage := s.explainShortage(task, node, lacking, room); shortage != nil {
			tally.Add(shortage)
			continue
		}
		lack[lacking]++
		if none {
			absent[lacking]++
		}
	}
	for position, nodes := range lack {
		if full := nodes - absent[position]; full > 0 {
			tally.AddN(s.lacking(task, position, false), full)
		}
		if absent[position] > 0 {
			tally.AddN(s.lacking(task, position, true), absent[position])
		}
	}
	near.addTo(dimensions, tally, lack, task.Request, room)
	return tally
}

func noNodes() *model.Refusal {
	return &model.Refusal{Code: model.NodesFiltered, Detail: "the cluster has no nodes"}
}

// hasNone reports whether a node has nothing of a device, also when it is empty.
func hasNone(node *model.Node, position int) bool {
	return position > model.Pods && node.Allocatable.At(position) <= 0
}

// lacking returns the refusal of a node that lacks one resource of a task's request, or has nothing of it at all, made once for
// the names that nodes offer.
func (s *Session) lacking(task *model.Task, position int, absent bool) *model.Refusal {
	refusal := func(name corev1.ResourceName, absent bool) *model.Refusal {
		return &model.Refusal{Code: model.InsufficientResources, Detail: string(name), Absent: absent, Evictable: true}
	}
	if position == model.Unoffered {
		return refusal(s.Snapshot.Dimensions.For(task).Name(position), absent)
	}
	for len(s.lacks) < s.Snapshot.Dimensions.Len() {
		name := s.Snapshot.Dimensions.Name(len(s.lacks))
		s.lacks = append(s.lacks, [2]*model.Refusal{refusal(name, false), refusal(name, true)})
	}
	if absent {
		return s.lacks[position][1]
	}
	return s.lacks[position][0]
}
