package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// findBroadly takes victims from all over the cluster, the least important first, until the job can start as a whole: the way
// for jobs of which one member's place depends on that of another. What is too much in it is for trim to give back.
func (s *search) findBroadly() *plan {
	units := s.inCostOrder()
	if s.left <= 0 || !s.starts(s.first(units, len(units))) {
		s.cut = s.cut || s.left <= 0
		return nil
	}
	low, high := 0, len(units) // so few do not suffice, so many do
	for size := 1; size < high; size *= 2 {
		if s.starts(s.first(units, size)) {
			high = size
			break
		}
		low = size
	}
	for high-low > 1 {
		if s.left <= 0 {
			s.cut = true
			return nil
		}
		if middle := (low + high) / 2; s.starts(s.first(units, middle)) {
			high = middle
		} else {
			low = middle
		}
	}
	return s.nearby(s.first(units, high))
}

// first returns the plan of the first so many units, as far as they may go together.
func (s *search) first(units []unit, many int) *plan {
	p := newPlan(s.guard)
	for _, u := range units[:many] {
		s.widen(p, u)
	}
	return p.settled()
}

// nearby returns as much of a plan as has pods where members would go, if that suffices: in a large cluster most of it has
// none.
func (s *search) nearby(p *plan) *plan {
	nodes := map[string]bool{}
	s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if refusal := s.evictAll(statement, p.units); refusal != nil {
			return refusal
		}
		if refusal := s.trial.Start(model.FutureRoom); refusal != nil {
			return refusal
		}
		s.seats = nil
		for _, task := range s.trial.Members() {
			if task.Status == model.Promised {
				nodes[task.Node] = true
				s.seats = append(s.seats, seat{task: task, node: s.session.Snapshot.Node(task.Node)})
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
