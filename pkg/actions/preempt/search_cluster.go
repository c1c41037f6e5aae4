package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// searchClusterWide takes victims from all over the cluster, the least important first, until the job can start as a whole:
// the way for jobs of which one member's place depends on that of another. What is too much in it is for trim to release.
func (s *search) searchClusterWide() *plan {
	units := s.unitsByCost()
	low, high := 0, 0 // so few do not suffice, so many do; 0 is not known yet
	if s.from.stage == bisecting {
		low, high = s.from.low, s.from.high
	}
	for high == 0 || high-low > 1 {
		if s.budgetExhausted() {
			s.suspend(savedSearch{stage: bisecting, low: low, high: high})
			return nil
		}
		middle := (low + high) / 2
		if high == 0 {
			middle = min(max(1, 2*low), len(units))
		}
		switch enough := s.starts(s.planOfFirst(units, middle)); {
		case enough:
			high = middle
		case middle == len(units):
			return nil
		default:
			low = middle
		}
	}
	return s.restrictToUsedNodes(s.planOfFirst(units, high))
}

// planOfFirst returns the plan of the first so many units, as far as they may go together.
func (s *search) planOfFirst(units []victimUnit, many int) *plan {
	p := newPlan(s.guard)
	for _, u := range units[:many] {
		s.extend(p, u)
	}
	return p.mergeWhole()
}

// restrictToUsedNodes returns as much of a plan as has pods where members would go, if that suffices: in a large cluster most
// of it has none.
func (s *search) restrictToUsedNodes(p *plan) *plan {
	nodes := map[string]bool{}
	s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if refusal := s.evictAll(statement, p.units); refusal != nil {
			return refusal
		}
		if refusal := s.trial.Place(model.FutureIdle); refusal != nil {
			return refusal
		}
		s.seats = nil
		for _, task := range s.trial.Members() {
			if task.Status == model.Pipelined {
				nodes[task.Node] = true
				s.seats = append(s.seats, memberPlacement{task: task, node: s.session.Snapshot.Node(task.Node)})
			}
		}
		return undone() // it was only a question
	})
	near := newPlan(s.guard)
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
