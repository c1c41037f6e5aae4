package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/suggest"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	placing "github.com/tutti-sched/tutti/pkg/place"
)

// advise writes what would let each job start that the last cycle has refused.
func (s *environment) advise() string {
	var b strings.Builder
	s.eachAdvice(suggest.DefaultBudget, func(job *model.Job, advice suggest.Suggestions) {
		if len(advice) > 0 {
			fmt.Fprintf(&b, "advice: %s: %s\n", jobName(job.Key), advice)
		}
	})
	for _, key := range slices.SortedFunc(maps.Keys(s.refusals), model.JobKey.Compare) {
		if s.refusals[key].Code == model.GroupNotFound {
			words, _ := suggest.Name(s.state.Snapshot(s.world.now), key)
			fmt.Fprintf(&b, "advice: %s: %s\n", jobName(key), words)
		}
	}
	return b.String()
}

// eachAdvice asks for advice about each job that the last cycle has refused, within a budget for each. It asks about a copy, as
// the scheduler does.
func (s *environment) eachAdvice(budget int, tell func(*model.Job, suggest.Suggestions)) {
	known := s.state.Snapshot(s.world.now)
	known.EvictionBackoff = s.spared
	copied, replica := s.state.Copy(s.world.now), cluster.NewReplica()
	replica.Follow(copied)
	s.view.SharedLister = replica
	defer s.focus()
	snapshot := copied.Snapshot
	options := suggest.Options{Preempts: s.preempts(), Budget: budget, Largest: placing.MaxAllocatable(snapshot)}
	session := framework.Open(snapshot, s.profile, framework.Options{Verify: true})
	for _, key := range slices.SortedFunc(maps.Keys(s.refusals), model.JobKey.Compare) {
		if job := snapshot.Job(key); job != nil {
			advice, _ := suggest.Suggest(session, job, s.refusals[key], options)
			tell(job, advice)
		}
	}
	session.Close()
}

func (s *environment) preempts() bool {
	return slices.ContainsFunc(s.profile.Actions, func(action framework.Action) bool { return action.Name() == preempt.Name })
}
