package preempt

import (
	"container/heap"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// searchGreedy gives one member after the other a place where that costs least, on top of what those before it cost.
func (s *search) searchGreedy() *plan {
	p := newPlan(s.guard)
	refusal := s.session.Try(func(statement *engine.Statement) *model.Refusal {
		hopeless := map[model.Shape]bool{}
		short := int64(0) // as many more must have a place before the gates can agree
		for _, task := range s.trial.Members() {
			if short <= 0 {
				gate := s.session.JobReady(s.job, framework.Pipelined)
				if gate == nil {
					break
				}
				short = gate.Needs - gate.Has
			}
			if task.Invalid != nil || hopeless[task.Shape] {
				continue
			}
			if hopeless[task.Shape] = !s.placeMember(p, task); !hopeless[task.Shape] {
				short--
			}
		}
		if gate := s.session.JobReady(s.job, framework.Pipelined); gate != nil {
			return gate
		}
		if refusal := s.overLimit(); refusal != nil {
			return refusal
		}
		if p = p.mergeWhole(); !s.allows(p.units) {
			return &model.Refusal{Code: model.InsufficientResources}
		}
		return undone()
	})
	if refusal.Code != "" {
		return nil
	}
	return p
}

// placeMember frees capacity for one member and nominates it.
func (s *search) placeMember(p *plan, task *model.Task) bool {
	b := s.nodeCosts(p, task)
	var node *model.Node
	var victims victimSet
	if s.ask.Rests(task, engine.OnShape) {
		node, victims = s.cheapest(p, b)
	} else {
		node, victims = s.bestNode(p, task, b)
	}
	if node == nil {
		return false
	}
	refusal := s.session.Try(func(inner *engine.Statement) *model.Refusal {
		if refusal := s.evict(inner, victims.units...); refusal != nil {
			return refusal
		}
		return inner.Put(s.ask, task, node)
	})
	if refusal != nil {
		return false
	}
	for _, u := range victims.units {
		if p.lossPerJob[u.of] == (jobLoss{}) {
			s.touchedBy = append(s.touchedBy, u.of)
		}
		p.add(u)
	}
	p.places = append(p.places, memberPlacement{task: task, node: node})
	return true
}

// bestNode finds a place for a task for which capacity is not all that matters. What capacity alone would cost on a node is the
// least that it can cost there, so nodes are tried from the cheapest on, until what was found is no dearer than any to come.
// Nodes that could not take a member before are tried again only when no other node can.
func (s *search) bestNode(p *plan, task *model.Task, b *nodeCostHeap) (best *model.Node, cheapest victimSet) {
	again := len(b.parked) > 0
	var fit []int32
	for len(b.heap) > 0 && (best == nil || b.costs[b.heap[0]].compare(&cheapest.cost) < 0) {
		place := b.heap[0]
		b.remove(place)
		victims, ok := s.dryRun(p, task, b.nodes[place])
		if !ok {
			b.parked[place] = true
			continue
		}
		fit = append(fit, place)
		if best == nil || victims.cost.compare(&cheapest.cost) < 0 {
			best, cheapest = b.nodes[place], victims
		}
	}
	for _, place := range fit {
		heap.Push(b, place)
	}
	b.mark = s.session.Snapshot.Journal.Cursor() // the changes since are those of the questions, which were undone
	if best == nil && again {
		b.unpark()
		return s.bestNode(p, task, b)
	}
	return best, cheapest
}

// dryRun returns the victims on a node with which the task passes all filters there: all candidates are evicted, and then each
// that is not in the way is reprieved, the most important first. Whole jobs of which single members could go are left alone
// at first.
func (s *search) dryRun(p *plan, task *model.Task, node *model.Node) (found victimSet, ok bool) {
	s.spend(1)
	if s.ask.Fits(task, node) {
		return victimSet{}, true
	}
	units := s.unitsOn(node, false)
	found, ok = s.dryRunWith(p, task, node, units)
	if !ok && slices.ContainsFunc(units, func(u victimUnit) bool { return !u.whole && u.of.wholeUnit }) {
		found, ok = s.dryRunWith(p, task, node, s.unitsOn(node, true))
	}
	return found, ok
}

func (s *search) dryRunWith(p *plan, task *model.Task, node *model.Node, units []victimUnit) (found victimSet, ok bool) {
	before := len(p.units)
	s.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, u := range units {
			p.extend(u)
		}
		gone := slices.Clone(p.units[before:])
		if refusal := s.evict(statement, gone...); refusal != nil {
			return refusal
		}
		s.spend(2 * len(gone))
		if ok = s.ask.Fits(task, node); !ok {
			return undone()
		}
		sortUnits(gone)
		for _, u := range slices.Backward(gone) {
			unevict(statement, &u)
			if s.ask.Fits(task, node) {
				continue
			}
			s.evict(statement, u)
			found.units = append(found.units, u)
		}
		return undone() // it was only a question
	})
	p.shorten(before)
	found.cost = s.addedCost(p, found.units)
	return found, ok
}

// addedCost returns what units cost on top of a plan.
func (s *search) addedCost(p *plan, units []victimUnit) cost {
	var sum cost
	before := len(p.units)
	for i := range units {
		sum = sum.plus(&units[i].cost)
		p.add(units[i])
	}
	sum[violations] = p.guard.violationsWith(p.covered)
	p.shorten(before)
	return sum
}

// unitsOn returns the units with pods on the node that may go: single members before whole jobs, and whole jobs that could also
// lose single members only if they are asked for.
func (s *search) unitsOn(node *model.Node, wholes bool) []victimUnit {
	var units []victimUnit
	for _, task := range node.Tasks {
		from := s.pool.of[task]
		if from == nil || !inPlace(task) {
			continue
		}
		if from.singles[task] && !(wholes && from.wholeUnit) {
			units = append(units, newUnit(from, []*model.Task{task}, false))
		}
		if from.wholeUnit && (wholes || len(from.singles) == 0) &&
			!slices.ContainsFunc(units, func(u victimUnit) bool { return u.of == from }) {
			units = append(units, from.wholeOnly)
		}
	}
	sortUnits(units)
	return units
}
