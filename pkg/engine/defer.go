package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// pipeline is how far the actions are.
type pipeline struct {
	// part is the position of the action that is executed; the number of actions when none is any longer.
	part int
	// deferred are the jobs that were deferred since the pipeline ran last, each once (isDeferred), and highest is the highest of
	// their priorities; resumed are those that it runs for now, nil the first time.
	deferred, resumed []*model.Job
	isDeferred        map[model.JobKey]bool
	highest           int32
}

// MayPreempt reports whether an action that comes later may find pods to evict for the job.
func (s *Session) MayPreempt(job *model.Job) bool {
	return slices.ContainsFunc(s.profile.Actions[min(s.pipeline.part+1, len(s.profile.Actions)):], func(action Action) bool {
		preemptor, ok := action.(Preemptor)
		return ok && preemptor.MayPreempt(s, job)
	})
}

// Deferred is the refusal of a job that is deferred: it is tried again in the same session.
var Deferred = &model.Refusal{Code: model.Reserved, Detail: "deferred: pods may be evicted for a job of higher priority"}

// Defer puts off a job, or one that is asked about with another priority, which may be in need of capacity that the actions
// behind this one need for others, until the pipeline has run. It then runs once more in the same session, for the jobs that were
// deferred, and so on until none is. Each time at least one of the jobs must not be deferred again.
func (s *Session) Defer(job *model.Job) {
	if s.pipeline.isDeferred == nil {
		s.pipeline.isDeferred = map[model.JobKey]bool{}
	}
	if len(s.pipeline.deferred) == 0 || job.Priority > s.pipeline.highest {
		s.pipeline.highest = job.Priority
	}
	if !s.pipeline.isDeferred[job.Key] {
		s.pipeline.isDeferred[job.Key] = true
		s.pipeline.deferred = append(s.pipeline.deferred, s.Snapshot.Job(job.Key))
	}
}

// HighestDeferred returns the highest priority of the deferred jobs, whose turn comes before that of all below: of a job that
// only waits for members beyond its minimum, theirs. any is false when none was deferred.
func (s *Session) HighestDeferred() (highest int32, any bool) {
	return s.pipeline.highest, len(s.pipeline.deferred) > 0
}

// execute runs the pipeline until no job is deferred any more.
func (s *Session) execute() {
	for {
		for ; s.pipeline.part < len(s.profile.Actions); s.pipeline.part++ {
			action := s.profile.Actions[s.pipeline.part]
			resumer, resumes := action.(Resumer)
			if s.pipeline.resumed != nil && !resumes {
				continue
			}
			s.began(action.Name())
			if s.pipeline.resumed == nil {
				action.Execute(s)
			} else {
				resumer.Resume(s, s.pipeline.resumed)
			}
		}
		if len(s.pipeline.deferred) == 0 {
			return
		}
		s.pipeline = pipeline{resumed: s.pipeline.deferred}
	}
}
