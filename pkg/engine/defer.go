package engine

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// MayPreempt reports whether an action that comes later may find pods to evict for the job.
func (s *Session) MayPreempt(job *model.Job) bool {
	return slices.ContainsFunc(s.profile.Actions[min(s.currentPart+1, len(s.profile.Actions)):], func(action Action) bool {
		preemptor, ok := action.(Preemptor)
		return ok && preemptor.MayPreempt(s, job)
	})
}

// Deferred is the refusal of a job that is deferred: it is tried again in the same session.
var Deferred = &model.Refusal{Code: model.Reserved, Detail: "deferred: pods may be evicted for a job of higher priority", Transient: true}

// Defer puts off a job, or one that is asked about with another priority, which may be in need of capacity that the actions
// behind this one need for others, until the pipeline has run. It then runs once more in the same session, for the jobs that were
// deferred, and so on until none is. Each time at least one of the jobs must not be deferred again.
func (s *Session) Defer(job *model.Job) {
	if s.isDeferred == nil {
		s.isDeferred = map[model.JobKey]bool{}
	}
	if len(s.deferred) == 0 || job.Priority > s.highestDeferred {
		s.highestDeferred = job.Priority
	}
	if !s.isDeferred[job.Key] {
		s.isDeferred[job.Key] = true
		s.deferred = append(s.deferred, s.Snapshot.Job(job.Key))
	}
}

// HighestDeferred returns the highest priority of the deferred jobs, whose turn comes before that of all below: of a job that
// only waits for members beyond its minimum, theirs. any is false when none was deferred.
func (s *Session) HighestDeferred() (highest int32, any bool) {
	return s.highestDeferred, len(s.deferred) > 0
}

// execute runs the pipeline until no job is deferred any more.
func (s *Session) execute() {
	for {
		for ; s.currentPart < len(s.profile.Actions); s.currentPart++ {
			action := s.profile.Actions[s.currentPart]
			resumer, resumes := action.(Resumer)
			if s.resumed != nil && !resumes {
				continue
			}
			s.began(action.Name())
			if s.resumed == nil {
				action.Execute(s)
			} else {
				resumer.Resume(s, s.resumed)
			}
		}
		if len(s.deferred) == 0 {
			return
		}
		s.resumed, s.deferred, s.isDeferred, s.currentPart = s.deferred, nil, nil, 0
	}
}
