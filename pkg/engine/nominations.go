package engine

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// nominations is what the session knows of capacity that is nominated to jobs.
type nominations struct {
	// lapsed are the jobs whose nominations of earlier cycles are no longer enough; renewed are those that got capacity since,
	// keep what they have or have given it back, and returned those that have given it back.
	lapsed            []*model.Job
	renewed, returned map[model.JobKey]bool
	// made are the pods to which a decision of this session has nominated capacity beyond it.
	made map[types.UID]bool
}

// ReleaseNominations ends the nominations of a job from earlier cycles: all jobs may have their capacity immediately. Nominations
// that the job gets later in the session are new.
func (s *Session) ReleaseNominations(job *model.Job) {
	decision := model.Decision{Job: job.Key, Nominations: s.releaseNominations(job, nil)}
	s.Snapshot.ReleaseNominated(job.Key)
	s.nominations.renewed[job.Key], s.nominations.returned[job.Key] = true, true
	if len(decision.Nominations) > 0 {
		s.send(decision)
	}
}

// ExpireNominations says that what was nominated to a job in earlier cycles is not enough for it to start any more. The capacity
// stays with it for the session, so that another action may make a new plan that begins with it; without one it is released
// in the end.
func (s *Session) ExpireNominations(job *model.Job) {
	s.nominations.lapsed = append(s.nominations.lapsed, job)
}

// Expired returns the jobs whose nominations have lapsed in this session, and that neither got capacity since nor gave theirs
// back.
func (s *Session) Expired() []*model.Job {
	return slices.DeleteFunc(slices.Clone(s.nominations.lapsed), func(job *model.Job) bool { return s.nominations.renewed[job.Key] })
}

// IsExpired reports whether Expired has the job.
func (s *Session) IsExpired(job *model.Job) bool {
	return slices.Contains(s.nominations.lapsed, job) && !s.nominations.renewed[job.Key]
}

// HoldsNominations reports whether members of the job were nominated in earlier cycles, and it has not given that back since.
func (s *Session) HoldsNominations(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" }) && !s.nominations.returned[job.Key]
}

// KeepNominations leaves a job what was nominated to it in earlier cycles, although it has lapsed: whether it helps is for the
// next cycle to find out.
func (s *Session) KeepNominations(job *model.Job) { s.nominations.renewed[job.Key] = true }

// HasReclaimed reports whether pods of other queues were evicted for the job in this session.
func (s *Session) HasReclaimed(job *model.Job) bool { return s.decisions.reclaimed[job.Key] }

// Evictions returns how many pods decisions of this session have evicted by now.
func (s *Session) Evictions() int { return s.decisions.evictions }

// releaseExpired releases what was not nominated again, nor needed in the end.
func (s *Session) releaseExpired() {
	for _, job := range s.Expired() {
		s.ReleaseNominations(job)
	}
}

// releaseNominations takes back, once, the nominations of members of a job from earlier cycles, or those of this one that have
// lapsed since, but for the members that are nominated again.
func (s *Session) releaseNominations(job *model.Job, again []model.Nomination) []model.Nomination {
	if s.nominations.returned[job.Key] {
		return nil
	}
	var back []model.Nomination
	for _, task := range job.Tasks {
		ofTask := func(n model.Nomination) bool { return n.Pod.UID == task.UID }
		if (task.Nominated != "" || s.nominations.made[task.UID]) && task.Status != model.Allocated && !slices.ContainsFunc(again, ofTask) {
			back = append(back, model.Nomination{Pod: task.PodRef})
		}
	}
	return back
}
