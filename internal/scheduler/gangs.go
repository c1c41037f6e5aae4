package scheduler

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// checkGangs undoes the starts whose deadline is over and restarts degraded gangs whose time has come, unless they could
// not start again, since the scheduler or their queue is paused, or their queue is in error. It returns which gangs the cycle
// leaves out for that, and when to check again. The snapshot is out of date after it.
func (s *Scheduler) checkGangs(
	ctx context.Context, snapshot *model.Snapshot, now time.Time,
) (held map[model.JobKey]*model.Refusal, wake time.Time) {
	s.gangs.Prune(snapshot)
	held = map[model.JobKey]*model.Refusal{}
	for _, job := range snapshot.Jobs {
		if !s.gangs.Concerns(job) || s.delays.Panics.Delayed(backoff.Of(job), now) {
			continue
		}
		refusal := s.quarantineOnPanic(ctx, partStarts, job.Key, now, func() {
			mayStart := s.profile.Paused == "" && snapshot.QueueRefusal(job) == nil
			verdict := s.gangs.Check(job, s.state.Group(job.Key), s.refusals[job.Key], mayStart, now)
			wake = backoff.Sooner(wake, verdict.Again)
			if verdict.Held != nil {
				held[job.Key] = verdict.Held
			}
			if verdict.Undo != nil {
				s.undoStart(ctx, job, verdict.Undo, now)
			}
		})
		if refusal != nil {
			held[job.Key] = refusal
		}
	}
	return held, wake
}

// undoStart deletes members of a gang. No call leaves before this step has ended, so all deletions are assumed by then.
func (s *Scheduler) undoStart(ctx context.Context, job *model.Job, undo *lifecycle.Undo, now time.Time) {
	cause := "undo"
	if undo.Restart() {
		cause = "restart"
	}
	klog.FromContext(ctx).Info("Gang undone", "job", job.Key, "deleted", len(undo.Members), "reason", undo.Why.Detail)
	s.options.Metrics.Count(metrics.Evictions, float64(len(undo.Members)), cause)
	s.options.Metrics.Count(metrics.EvictedGroups, 1, cause)
	s.machine.Undo(now, job.Key, undo.Members)
	s.state.Assume(undo.Decision(job.Key))
	s.reporter.Ends(undo.Members)
	s.write(now, s.history.Last()+1, report.Undone(job, undo.Why, undo.Members, now))
}

// recordStart records a gang whose minimum is bound, unless the result of a bind is not known, or what was reserved for one that
// has failed is still being released. The caller knows of those that are under way.
func (s *Scheduler) recordStart(key model.JobKey, now time.Time) {
	open := func(task *model.Task) bool {
		_, uncertain := s.uncertain[task.UID]
		return uncertain || s.machine.Releasing(task.UID)
	}
	job := s.state.Snapshot(now).Job(key)
	if job != nil && !slices.ContainsFunc(job.Tasks, open) && s.gangs.Committed(job, now) {
		s.options.Metrics.Started(job, now)
		s.countPreferences(job)
	}
}

// observeWrites measures the PodGroups whose minimum runs for the first time, as the statuses say that are about to be written,
// and logs those that are to be deleted because they have ended.
func (s *Scheduler) observeWrites(ctx context.Context, writes []commit.Write, now time.Time) {
	for _, write := range writes {
		switch next := write.(type) {
		case *commit.GroupDeletion:
			klog.FromContext(ctx).Info("Deleting a PodGroup that has ended", "job", model.JobKey{Namespace: next.Namespace, Name: next.Name})
		case *commit.GroupStatus:
			before := s.state.Group(model.JobKey{Namespace: next.Namespace, Name: next.Name})
			if before == nil || next.Status.Phase != v1alpha1.PodGroupRunning || before.Status.Phase != "" &&
				before.Status.Phase != v1alpha1.PodGroupPending && before.Status.Phase != v1alpha1.PodGroupStarting {
				continue
			}
			if bound := meta.FindStatusCondition(next.Status.Conditions, v1alpha1.ConditionScheduled); bound != nil {
				s.options.Metrics.Observe(metrics.StartToRunning, max(0, now.Sub(bound.LastTransitionTime.Time)).Seconds())
			}
		}
	}
}
