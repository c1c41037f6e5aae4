package engine

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds nodes for tasks. What depends on a task's shape and on each node alone is kept in the session's Cache,
// in order; what depends on anything else is asked for each task.

// BestOrWhy returns the best node for the task: the highest sum of weighted scores, ties to the lower name. within narrows the
// nodes; nil means all. When there is none it returns nil and why, node by node, which costs a look at each.
func (a Ask) BestOrWhy(task *model.Task, within func(*model.Node) bool) (*model.Node, *model.NodeDiagnosis) {
	defer a.session.charge(task.Job, nil)
	known, refused := a.about(task)
	if refused != nil {
		tally := &model.NodeDiagnosis{}
		tally.AddN(refused, len(a.session.Snapshot.Nodes))
		return nil, tally
	}
	if best := a.best(task, &known, within); best != nil {
		return best, nil
	}
	return nil, a.explain(task, &known)
}

// Best returns the best node like BestOrWhy, without why there is none.
func (a Ask) Best(task *model.Task, within func(*model.Node) bool) *model.Node {
	defer a.session.charge(task.Job, nil)
	known, refused := a.about(task)
	if refused != nil {
		return nil
	}
	return a.best(task, &known, within)
}

// BestOf returns the best of some nodes, by their indexes in ascending order; nil when there is none.
func (a Ask) BestOf(task *model.Task, nodes []int) *model.Node {
	defer a.session.charge(task.Job, nil)
	known, refused := a.about(task)
	if refused != nil {
		return nil
	}
	if _, any := known.order.best(); !any { // when no node has capacity, no scores are needed
		return nil
	}
	a.rank(&known, task)
	return known.bestAmong(nodes)
}

func (known *asked) bestAmong(nodes []int) (best *model.Node) {
	var bestScore int64
	limit := int64(infeasible) // nodes with no more than that are not looked at
	for i := 0; i < len(nodes); i++ {
		if skipped := known.order.below(nodes[i:], limit); skipped > 0 {
			i += skipped - 1
			continue
		}
		position := nodes[i]
		score := known.order.at(position)
		if score <= limit {
			continue
		}
		node := known.answer.nodes[position]
		if known.check(node) != nil {
			continue
		}
		if known.scores() {
			candidate, _ := slices.BinarySearch(known.answer.positions, position)
			score += known.score(node) + known.bound(candidate)
		}
		if best == nil || score > bestScore {
			best, bestScore = node, score
		}
		if !known.scores() {
			limit = bestScore
		}
	}
	return best
}

// HasRoom reports whether any node has capacity for tasks of the shape, as far as each node alone decides. Without it none of
// them has a place: further restrictions only leave nodes out.
func (a Ask) HasRoom(task *model.Task) bool {
	if a.session.quarantined[task.Job] != nil {
		return true // unknown
	}
	defer a.session.charge(task.Job, nil)
	a.open()
	_, order := a.session.ranked(task, a.Kind)
	_, any := order.best()
	return any
}

func (a *Ask) best(task *model.Task, known *asked, within func(*model.Node) bool) *model.Node {
	first, any := known.order.best()
	if !any { // when no node has capacity, no scores are needed
		return nil
	}
	a.rank(known, task)
	if within == nil && known.isEmpty() {
		return known.answer.nodes[first]
	}
	ordered, tried := !known.scores(), 0
	if within == nil && ordered { // checks may be expensive, and mostly one of the first will do
		for position := range known.order.descending() {
			if node := known.answer.nodes[position]; known.check(node) == nil {
				return node
			}
			if tried++; tried == maxOrderedNodes {
				break
			}
		}
	}
	var best *model.Node
	var bestScore int64
	for i, position := range known.answer.positions {
		score := known.order.at(position)
		if score == infeasible || ordered && best != nil && score <= bestScore {
			continue
		}
		node := known.answer.candidates[i]
		if within != nil && !within(node) || known.check(node) != nil {
			continue
		}
		if score += known.score(node) + known.bound(i); best == nil || score > bestScore {
			best, bestScore = node, score
		}
	}
	return best
}

// maxOrderedNodes is how many nodes are asked in their order before all are, in that of their names: to keep the order costs
// more.
const maxOrderedNodes = 16

// All returns every node with capacity for the task that passes every filter, by name.
func (a Ask) All(task *model.Task) (nodes []*model.Node) {
	defer a.session.charge(task.Job, nil)
	known, refused := a.about(task)
	if refused != nil {
		return nil
	}
	for i, position := range known.answer.positions {
		if node := known.answer.candidates[i]; known.order.at(position) != infeasible && known.check(node) == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// Fits reports whether the node has capacity for the task and passes every filter.
func (a Ask) Fits(task *model.Task, node *model.Node) bool {
	defer a.session.charge(task.Job, nil)
	known, refused := a.about(task)
	return refused == nil && known.order.at(node.Index) != infeasible && known.check(node) == nil
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
	if s.quarantined[task.Job] != nil {
		return nil
	}
	defer s.charge(task.Job, nil)
	known := s.cache.lookup(task.Shape, len(s.Snapshot.Nodes))
	known.static.update(s, task)
	return &known.static
}

// ranked returns what is known of the task's shape, brought up to date.
func (s *Session) ranked(task *model.Task, room model.CapacityKind) (*shapeCache, *ranking) {
	var known *shapeCache
	if s.options.Afresh {
		known = &shapeCache{}
	} else {
		known = s.cache.lookup(task.Shape, len(s.Snapshot.Nodes))
	}
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
	return known, *order
}

// explain counts what kept the task from each node.
func (a *Ask) explain(task *model.Task, known *asked) *model.NodeDiagnosis {
	s, tally := a.session, &model.NodeDiagnosis{}
	tally.Merge(&known.answer.ruledOut)
	dimensions := s.Snapshot.Dimensions.For(task)
	lack, absent := make([]int, dimensions.Len()), make([]int, dimensions.Len()) // how many nodes lack it, and of these have none
	refused := func(node *model.Node) *model.Refusal {
		if refusal := known.order.checks.check(node); refusal != nil {
			return refusal
		}
		return known.check(node)
	}
	var near closestFit
	for _, node := range known.answer.candidates {
		free := node.Free(a.Kind)
		lacking := dimensions.InsufficientResource(free, task.Request)
		if lacking < 0 {
			tally.Add(refused(node))
			continue
		}
		none := hasNone(node, lacking)
		if !none {
			near.observe(node, free, task.Request, refused)
		}
		if shortage := s.explainShortage(task, node, lacking, a.Kind); shortage != nil {
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
	near.addTo(dimensions, tally, lack, task.Request)
	return tally
}

func noNodes() *model.Refusal {
	return &model.Refusal{Code: model.NodesFiltered, Detail: "the cluster has no nodes"}
}

// hasNone reports whether a node has nothing of a device, also when it is empty.
func hasNone(node *model.Node, position int) bool {
	return position > model.Pods && node.Allocatable().At(position) <= 0
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
	for len(s.found.lacks) < s.Snapshot.Dimensions.Len() {
		name := s.Snapshot.Dimensions.Name(len(s.found.lacks))
		s.found.lacks = append(s.found.lacks, [2]*model.Refusal{refusal(name, false), refusal(name, true)})
	}
	if absent {
		return s.found.lacks[position][1]
	}
	return s.found.lacks[position][0]
}
