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
	enough := sort.Search(len(levels), func(i int) bool { return s.starts(s.planOfFirst(units, levels[i])) })
	if enough == len(levels) {
		return nil
	}
	return s.restrictToUsedNodes(s.planOfFirst(units, levels[enough])) // of which the last answer above that was yes has set the places
}

// planOfFirst returns the plan of the first so many units, as far as they may go together.
func (s *search) planOfFirst(units []victimUnit, many int) *plan {
	p := newPlan(s.guard, s.claim)
	for _, u := range units[:many] {
		p.extend(u)
	}
	return p.mergeWhole()
}

// restrictToUsedNodes returns as much of a plan as has pods where members would go, if that suffices: in a large cluster most
// of it has none.
func (s *search) restrictToUsedNodes(p *plan) *plan {
	nodes := map[string]bool{}
	for _, member := range s.places {
		nodes[member.node.Name] = true
	}
	near := newPlan(s.guard, s.claim)
	for _, u := range p.units {
		if slices.ContainsFunc(u.tasks, func(task *model.Task) bool { return nodes[task.Node] }) {
			near.add(u)
		}
	}
	if s.starts(near) {
		return near
	}
	return p
}
