package preempt

import (
	"fmt"
	"strings"

	"github.com/tutti-sched/tutti/pkg/model"
)

// explain says why there is no plan: even everybody who may go would make no room, or budgets are in the way, or gangs that
// could only go in part.
func (s *search) explain() string {
	if why := s.whyNot(s.everybody()); why != nil {
		return "would not help: " + why.String()
	}
	lax := *s.guard
	lax.strict = false
	all := newPlan(&lax)
	for _, u := range s.inCostOrder() {
		s.widen(all, u)
	}
	if all = all.settled(); s.guard.strict && lax.excess(all.covered) > 0 && s.starts(all) {
		return "protected by " + s.protectors(all)
	}
	return "would leave gangs below their minimum"
}

// protectors names the budgets that a plan asks too much of, up to a few.
func (s *search) protectors(p *plan) string {
	const few = 3
	var names []string
	for i := range p.covered {
		if p.covered[i] > max(0, s.guard.budgets[i].Allowed-s.guard.taken[i]) {
			names = append(names, "PodDisruptionBudget "+s.guard.budgets[i].Namespace+"/"+s.guard.budgets[i].Name)
		}
	}
	if len(names) > few {
		names = append(names[:few], fmt.Sprintf("%d more", len(names)-few))
	}
	return strings.Join(names, ", ")
}

// exhausted says that the search has come to the end of its budget.
func (r *run) exhausted() string {
	return fmt.Sprintf("budget exhausted after %d looks at nodes, goes on in the next cycle", r.used)
}

// hopelessKey is the question that jobs of one priority whose members are all of one shape ask.
type hopelessKey struct {
	shape    model.Shape
	priority int32
	needs    int
}

// hopelessness is why such jobs can start by nobody's leaving.
type hopelessness struct{ why string }

func (s *search) hopelessKey() hopelessKey {
	counted := s.job.Count(func(task *model.Task) bool { return task.Status.Counts() })
	return hopelessKey{
		shape: s.trial.Members()[0].Shape, priority: s.job.Priority, needs: int(s.job.MinMember) - counted,
	}
}

// foretell returns why there is no plan, if another job of this run has shown it. Nobody has been evicted since.
func (r *run) foretell(s *search) (why string, known bool) {
	if !s.uniform || len(s.job.Roles) > 0 || r.session.Afresh() {
		return "", false
	}
	found, known := r.hopeless[s.hopelessKey()]
	return found.why, known
}

func (r *run) remember(s *search, why string) {
	if s.uniform && len(s.job.Roles) == 0 {
		r.hopeless[s.hopelessKey()] = hopelessness{why: why}
	}
}
