package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// failure is a job without a plan.
type failure struct {
	job *model.Job
	// search is the last one for the job, same the failure of another job for which the search comes to the same; nil for none.
	search *search
	same   *failure
	// why is empty until it is explained; verdict is it for the cache, nil when it is not for that.
	why     string
	verdict *model.Refusal
	// skipped reports that the job had no turn.
	skipped bool
	// until is when another search may find a plan although nothing changes; zero is never.
	until time.Time
	// blockedByBudgets reports that there would be a plan if disruption budgets allowed it, blockedByProtected that a guarantee
	// takes pods that are never evicted.
	blockedByBudgets, blockedByProtected bool
	// revision is that of the search.
	revision model.Revision
}

// explain says why there are no plans, and keeps what holds as long as nothing changes. All victims are taken away once for all
// jobs of a priority, since they may be many.
func (r *run) explain() {
	explained := func(f *failure) bool { return f.search == nil || f.why != "" || f.verdict != nil }
	for _, first := range r.failures {
		if explained(first) {
			continue
		}
		open := slices.DeleteFunc(slices.Clone(r.failures), func(f *failure) bool {
			return explained(f) || f.search.pool != first.search.pool
		})
		r.spend(first.search.pool.pods)
		r.session.Try(func(statement *engine.Statement) *model.Refusal {
			for _, from := range first.search.pool.sources {
				if refusal := r.evict(statement, victimUnit{tasks: from.tasks}); refusal != nil {
					return refusal
				}
			}
			for _, f := range open {
				r.session.InTurn(f.job, func() { f.verdict = f.search.whyNot(&plan{}) })
			}
			return undone()
		})
		for _, f := range open {
			if f.verdict == nil {
				r.session.InTurn(f.job, func() { f.verdict = f.search.explainProtected() })
			}
		}
	}
}

// report adds to the refusals why there are no plans, the name of the action and the pods that do not go.
func (r *run) report(name string, overdue []*model.Task) {
	for _, f := range r.failures {
		of := cmp.Or(f.same, f)
		f.why, f.blockedByBudgets, f.blockedByProtected = of.why, of.blockedByBudgets, of.blockedByProtected
		if of.verdict != nil {
			if f.why, f.blockedByBudgets = describe(of.verdict), of.verdict.BlockedByBudgets; of.until.IsZero() && of.revision == r.session.Snapshot.Journal.Revision() {
				r.session.Ask(f.job, model.FutureIdle).Keep(r.question(f.job), of.verdict, of.search.reach(of.verdict))
			}
		}
		refusal := r.session.Refusal(f.job).WithNote(name + ": " + f.why + formatOverdue(f.job, overdue))
		refusal.Until = model.Sooner(refusal.Until, f.until)
		if of.verdict != nil && r.budget <= 0 { // another job may have its turn in place of this one, if what was kept cannot be used
			refusal.Until = r.session.Snapshot.Now
		}
		refusal.BlockedByBudgets = refusal.BlockedByBudgets || f.blockedByBudgets // of another action, too
		refusal.BlockedByProtected = refusal.BlockedByProtected || f.blockedByProtected
		r.session.Refuse(f.job, refusal)
	}
	r.failures = nil
}

// describe returns a verdict in words: that of a placement with all victims gone has a code, others are words already.
func describe(verdict *model.Refusal) string {
	if verdict.Code == "" {
		return verdict.Detail
	}
	return "would not help: " + verdict.Summary()
}

// reach returns for which jobs a verdict holds. What keeps victims from leaving may be otherwise for jobs that need more of them.
func (s *search) reach(verdict *model.Refusal) engine.Reach {
	switch {
	case slices.ContainsFunc(s.job.Tasks, func(task *model.Task) bool { return !s.ask.Rests(task, engine.OnSnapshot) }):
		return engine.ForNow
	case !s.plain, len(verdict.NodeReasons) == 0, s.job.Class.Uniform && verdict.Needs != int64(s.job.MinMember):
		return engine.ForJob
	}
	return engine.ForClass
}

// explainProtected says what keeps those victims from leaving without which the job cannot start: budgets, or their gangs.
func (s *search) explainProtected() *model.Refusal {
	lax := *s.guard
	lax.strict = false
	all := planOf(&lax, s.unitsByCost())
	verdict := &model.Refusal{Detail: "would leave gangs below their minimum"}
	if s.guard.strict && lax.violationsWith(all.covered) > 0 && s.whyNot(all) == nil {
		verdict.BlockedByBudgets, verdict.Detail = true, s.describeBudgets(all)
	}
	return verdict
}

// describeBudgets names the budgets of which a plan asks too much, and says how many of the evictions that it asks them for they
// allow. The budgets over a pod that more than one covers allow none, even if each of them would.
func (s *search) describeBudgets(p *plan) string {
	budgets, allowed, wanted, several := s.guard.budgets, int32(0), int32(0), ""
	protect := make([]bool, len(budgets))
	for i, covered := range p.covered {
		left := s.guard.left(i)
		if covered <= left {
			continue
		}
		allowed, wanted = allowed+left, wanted+covered
		if i < len(budgets) {
			protect[i] = true
			continue
		}
		several = ", none of a pod that more than one covers"
		for _, u := range p.units {
			for _, task := range u.tasks {
				for budget := range budgets {
					protect[budget] = protect[budget] || s.guard.asked[task] == i && budgets[budget].Covers(task)
				}
			}
		}
	}
	names := model.NameList{Noun: "PodDisruptionBudget", Reader: s.job.Key.Namespace}
	for i := range budgets {
		if protect[i] {
			names.Add(budgets[i].Namespace, "PodDisruptionBudget "+budgets[i].Namespace+"/"+budgets[i].Name)
		}
	}
	return fmt.Sprintf("protected by %s: %d of %d evictions allowed%s", names.String(), allowed, wanted, several)
}

// exhausted says that the job had no turn, in the same words in every cycle in which that is so.
func (r *run) exhausted() string {
	return fmt.Sprintf("budget of %d node evaluations exhausted by other jobs, its turn comes in the next cycle", r.options.Budget)
}

// terminationOverdue returns the pods that are being deleted and do not go.
func terminationOverdue(snapshot *model.Snapshot) (overdue []*model.Task) {
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if task.TerminationOverdue {
				overdue = append(overdue, task)
			}
		}
	}
	return overdue
}

// formatOverdue names such pods to users of the job, as the end of a sentence; empty when there are none.
func formatOverdue(job *model.Job, overdue []*model.Task) string {
	if len(overdue) == 0 {
		return ""
	}
	names := model.NameList{Noun: "pod", Reader: job.Key.Namespace}
	for _, task := range overdue {
		names.Add(task.Namespace, fmt.Sprintf("%s on %s", task, task.Node))
	}
	return "; stuck, being deleted for too long: " + names.String()
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

// lowestPriorityJobs returns the two jobs of the lowest priorities of those that run, so that every job finds another one. It
// is looked for once for all jobs without a plan, until a pod is evicted.
func (r *run) lowestPriorityJobs() []preemptibleJob {
	if r.lowest != nil {
		return r.lowest
	}
	r.lowest = []preemptibleJob{} // not nil, though it may be that no job runs
	for _, job := range r.session.Snapshot.Jobs {
		priority := job.Priority
		if job.MaySpare() {
			for _, task := range job.Tasks {
				priority = min(priority, task.Priority)
			}
		}
		if len(r.lowest) == 2 && priority >= r.lowest[1].priority || !slices.ContainsFunc(job.Tasks, r.evictable) {
			continue
		}
		r.lowest = append(r.lowest, preemptibleJob{job, priority})
		slices.SortStableFunc(r.lowest, func(a, b preemptibleJob) int { return cmp.Compare(a.priority, b.priority) })
		r.lowest = r.lowest[:min(len(r.lowest), 2)]
	}
	return r.lowest
}
