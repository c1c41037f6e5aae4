package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/remedy"
	placing "github.com/tutti-sched/tutti/pkg/start"
)

// advise writes what would let each job start that the last cycle has refused.
func (s *environment) advise() string {
	var b strings.Builder
	s.eachAdvice(remedy.DefaultBudget, func(job *model.Job, advice remedy.Suggestions) {
		if len(advice) > 0 {
			fmt.Fprintf(&b, "advice: %s: %s\n", jobName(job.Key), advice)
		}
	})
	for _, key := range slices.SortedFunc(maps.Keys(s.refusals), model.JobKey.Compare) {
		if s.refusals[key].Code == model.GroupNotFound {
			words, _ := remedy.Name(s.state.Snapshot(s.world.now), key)
			fmt.Fprintf(&b, "advice: %s: %s\n", jobName(key), words)
		}
	}
	return b.String()
}

// eachAdvice asks for advice about each job that the last cycle has refused, within a budget for each.
func (s *environment) eachAdvice(budget int, tell func(*model.Job, remedy.Suggestions)) {
	snapshot := s.state.Snapshot(s.world.now)
	snapshot.Budgets, snapshot.EvictionBackoff = s.world.allBudgets(), s.spared
	options := remedy.Options{Preempts: s.preempts(), Budget: budget, Largest: placing.MaxAllocatable(snapshot)}
	remedy.OpenSession(snapshot, s.profile, framework.Options{Verify: true, Memory: &s.memory}, func(session *framework.Session) {
		for _, key := range slices.SortedFunc(maps.Keys(s.refusals), model.JobKey.Compare) {
			if job := snapshot.Job(key); job != nil {
				advice, _ := remedy.Suggest(session, job, s.refusals[key], options)
				tell(job, advice)
			}
		}
	})
}

func (s *environment) preempts() bool {
	return slices.ContainsFunc(s.profile.Actions, func(action framework.Action) bool { return action.Name() == preempt.Name })
}
