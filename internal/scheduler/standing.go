package scheduler

import (
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says in which domains members are, by the levels of the present configuration.

// standing is what reports say of it. The job is one of the last snapshot.
func (s *Scheduler) standing(job *model.Job, shared *model.TopologyConstraint) (in report.Standing, least func() int) {
	known := engine.StandingOf(s.state.LastSnapshot(), s.profile, &s.cache, job, shared, (*model.Task).IsBound)
	if known == nil {
		return report.Standing{}, nil
	}
	return report.Standing{Domains: known.Len(), Names: known.Paths(report.MaxDomainNames)}, known.Least
}

// countPreferences counts for the metrics which preferences of a job that has just started are met. The keys of labels are those
// that users write: they would make any number of series.
func (s *Scheduler) countPreferences(job *model.Job) {
	for i := range job.Topology {
		shared := &job.Topology[i]
		if !shared.Preferred {
			continue
		}
		isThere := func(task *model.Task) bool { return task.Status.HasNode() && task.Status.CountsTowardMinimum() }
		known := engine.StandingOf(s.state.LastSnapshot(), s.profile, &s.cache, job, shared, isThere)
		members := job.Count(func(task *model.Task) bool { return shared.Covers(task) && isThere(task) })
		if known == nil || members == 0 {
			continue
		}
		level := shared.Level
		if _, isLabel := model.LevelLabel(level); isLabel {
			level = "label"
		}
		s.options.Metrics.Preferred(level, known.Len() == 1 && known.Members() == members)
	}
}
