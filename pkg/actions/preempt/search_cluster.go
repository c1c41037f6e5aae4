package preempt

import (
	"slices"
	"sort"

	"github.com/tutti-sched/tutti/pkg/model"
)

// searchClusterWide takes victims from all over the cluster, those of the lowest priorities, until the job can start as a
// whole: the way for jobs of which one member's place depends on that of another, and for those that a limit of their queue keeps
// waiting. What is too much in it reprieve releases.
func (s *search) searchClusterWide() *plan {
	units := s.unitsByCost()
	var levels []int // so many units have the lowest priorities, one level after the other
	for i := range units {
		last := i + 1
		if last == len(units) || !units[i].cost.sameLevel(&units[last].cost) {
			levels = append(levels, last)
		}
	}
	var enough *plan
	sort.Search(len(levels), func(i int) bool {
		p := planOf(s.guard, units[:levels[i]])
		starts := s.whyNot(p) == nil
		if starts {
			enough = p // it has fewer units than those before
		}
		return starts
	})
	if enough == nil {
		return nil
	}
	return s.restrictToUsedNodes(enough)
}

// planOf returns the plan of the units, as far as they may go together.
func planOf(guard *pdbBudget, units []victimUnit) *plan {
	p := newPlan(guard)
	for _, u := range units {
		p.extend(u)
	}
	return p.mergeWhole()
}

// restrictToUsedNodes returns as much of a plan as has pods where members would go, if that suffices: in a large cluster most
// of it has none.
func (s *search) restrictToUsedNodes(p *plan) *plan {
	nodes := map[string]bool{}
	for _, member := range p.places {
		nodes[member.node.Name] = true
	}
	near := newPlan(s.guard)
	for _, u := range p.units {
		if slices.ContainsFunc(u.tasks, func(task *model.Task) bool { return nodes[task.Node] }) {
			near.add(u)
		}
	}
	if s.whyNot(near) == nil {
		return near
	}
	return p
}
