package scheduler

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// holdPaused holds back, while the scheduler is paused, all jobs but those that have begun: interrupted starts, which are
// completed or undone, and those for whose nominations pods are gone already.
func (s *Scheduler) holdPaused(snapshot *model.Snapshot, now time.Time) {
	if snapshot.Paused = s.profile.Paused != ""; !snapshot.Paused {
		return
	}
	why := &model.Refusal{Code: model.Paused, Detail: s.profile.Paused}
	nominated := func(task *model.Task) bool { return task.Nominated != "" }
	for _, job := range snapshot.Jobs {
		begun := !s.gangs.Deadline(job, model.Pending.Is, now).IsZero() || slices.ContainsFunc(job.Tasks, nominated)
		if !job.NothingPending && !begun && snapshot.JobBackoff[job.Key] == nil {
			snapshot.JobBackoff[job.Key] = why
		}
	}
}
