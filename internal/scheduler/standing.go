package scheduler

import (
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says in which domains members are, by the levels of the present configuration.

// standing is what reports say of it. The job is one of the last snapshot.
func (s *Scheduler) standing(job *model.Job, shared *model.TopologyConstraint) (in report.Standing, least func() int) {
	known := framework.StandingOf(s.state.LastSnapshot(), s.profile, &s.cache, job, shared, (*model.Task).IsBound)
	if known == nil {
		return report.Standing{}, nil
	}
	return report.Standing{Domains: known.Len(), Names: known.Paths(report.MaxDomainNames)}, known.Least
}
