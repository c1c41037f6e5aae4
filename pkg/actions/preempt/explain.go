package preempt

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// explain says why there are no plans, where that is not said yet. All who may leave for a job are taken away once for all jobs
// of its priority, since they may be many.
func (r *run) explain() {
	for _, first := range r.failed {
		if first.search == nil || first.why != "" {
			continue
		}
		r.session.Try(func(statement *framework.Statement) *model.Refusal {
			allUnits := first.search.allUnits()
			r.spend(first.search.pool.pods)
			if refusal := r.evictAll(statement, allUnits); refusal != nil {
				return refusal
			}
			for _, f := range r.failed {
				if f.search != nil && f.why == "" && f.search.pool == first.search.pool {
					f.why = f.search.explainAfterAll()
				}
			}
			return undone() // it was only a question
		})
	}
	for _, f := range r.failed {
		switch {
		case f.same != nil:
			f.why = f.same.why
			if len(f.same.budgets) > 0 { // which it names to others than these
				f.why = formatPDBs(f.job, f.same.budgets)
			}
		case f.why == helpful:
			f.why, f.budgets = f.search.explainProtected()
		}
	}
}

// helpful is what inVain says where eviction would help.
const helpful = "would help"

// explainAfterAll says why the job cannot start even when all who may leave have left, as they have.
func (s *search) explainAfterAll() string {
	s.spend(s.looks())
	var why *model.Refusal
	s.session.Try(func(*framework.Statement) *model.Refusal {
		why = s.trial.Place(model.FutureIdle)
		return undone() // it was only a question
	})
	if why != nil {
		return "would not help: " + why.Summary()
	}
	return helpful
}

// explainProtected says what keeps those from leaving who would have to: budgets, or their gangs.
func (s *search) explainProtected() (why string, budgets []*model.Budget) {
	lax := *s.guard
	lax.strict = false
	all := newPlan(&lax)
	for _, u := range s.unitsByCost() {
		s.extend(all, u)
	}
	if all = all.mergeWhole(); s.guard.strict && lax.violationsWith(all.covered) > 0 && s.starts(all) {
		budgets = s.violatedPDBs(all)
		return formatPDBs(s.job, budgets), budgets
	}
	return "would leave gangs below their minimum", nil
}

// violatedPDBs returns the budgets that a plan asks too much of.
func (s *search) violatedPDBs(p *plan) (budgets []*model.Budget) {
	for i := range p.covered {
		if p.covered[i] > max(0, s.guard.budgets[i].Allowed-s.guard.used[i]) {
			budgets = append(budgets, &s.guard.budgets[i])
		}
	}
	return budgets
}

// formatPDBs names budgets to users of the job, up to a few.
func formatPDBs(job *model.Job, budgets []*model.Budget) string {
	names := model.NameList{Noun: "PodDisruptionBudget", Reader: job.Key.Namespace}
	for _, budget := range budgets {
		names.Add(budget.Namespace, "PodDisruptionBudget "+budget.Namespace+"/"+budget.Name)
	}
	return "protected by " + names.String()
}

// preemptibleJob is a job some of whose pods could be evicted, and its priority.
type preemptibleJob struct {
	job      *model.Job
	priority int32
}

// lowestPriorityHint says, for a job that finds no job below it, which priority it has and which is the lowest of the jobs
// whose pods run; nothing when none do.
func (r *run) lowestPriorityHint(job *model.Job) string {
	for _, other := range r.lowestPriorityJobs() {
		switch {
		case other.job == job:
			continue
		case other.priority < job.Priority: // those below it are not to be evicted for other reasons
			return ""
		}
		return fmt.Sprintf(" (its priority is %d, the lowest in use %d)", job.Priority, other.priority)
	}
	return ""
}

// lowestPriorityJobs returns the two jobs of the lowest priorities of those that run, so that every job finds another one. All
// jobs without a plan ask for it, and it is looked for once for all of them, until a pod is evicted.
func (r *run) lowestPriorityJobs() []preemptibleJob {
	if r.least != nil {
		return r.least
	}
	r.least = []preemptibleJob{} // not nil, though it may be that no job runs
	for _, job := range r.session.Snapshot.Jobs {
		if len(r.least) == 2 && job.Priority >= r.least[1].priority || !slices.ContainsFunc(job.Tasks, r.evictable) {
			continue
		}
		r.least = append(r.least, preemptibleJob{job, job.Priority})
		slices.SortStableFunc(r.least, func(a, b preemptibleJob) int { return cmp.Compare(a.priority, b.priority) })
		r.least = r.least[:min(len(r.least), 2)]
	}
	return r.least
}

// exhausted says that the search has come to the end of its budget, in the same words in every cycle in which it does.
func (r *run) exhausted() string {
	return fmt.Sprintf("budget exhausted after %d node evaluations, continues in the next cycle", r.options.Budget)
}

// infeasibleKey is the question that jobs of one priority whose members are all of one shape ask. A job for which room is
// kept, or that has begun and is below its minimum, sees more of it than others and asks one of its own.
type infeasibleKey struct {
	shape    model.Shape
	priority int32
	// needs and has are the numbers of the reason, which must be the job's own.
	needs int32
	has   int
}

func (s *search) hopelessKey() (key infeasibleKey, ok bool) {
	keeps := func(hold model.HeldCapacity) bool { return hold.Job == s.job.Key }
	if !s.uniform || s.job.BelowMinimum || len(s.job.Roles) > 0 || s.session.Uncached() || slices.ContainsFunc(s.session.Snapshot.Held(), keeps) {
		return key, false
	}
	counted := s.job.Count(func(task *model.Task) bool { return task.Status.CountsTowardMinimum() })
	return infeasibleKey{
		shape: s.trial.Members()[0].Shape, priority: s.job.Priority, needs: s.job.MinMember, has: counted,
	}, true
}

// lookupInfeasible returns the job of this run that has asked the same, and for which there was no plan; nil when there is
// none. No pod has been evicted since.
func (r *run) lookupInfeasible(s *search) *unplanned {
	if key, ok := s.hopelessKey(); ok {
		return r.hopeless[key]
	}
	return nil
}

func (r *run) remember(f *unplanned) {
	if key, ok := f.search.hopelessKey(); ok {
		r.hopeless[key] = f
	}
}
