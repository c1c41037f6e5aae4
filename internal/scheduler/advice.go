package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file keeps what is found of waiting jobs beside the loop. No decision reads it.

// findingLasts is how long a finding is shown after something has changed.
const findingLasts = time.Minute

// Refused is a job that a cycle has refused and that a change might start: none of its pods is bound, and it lacks nodes
// or members.
type Refused struct {
	Key     model.JobKey
	Subject Subject
	Refusal *model.Refusal
}

// Subject is what a finding is about: a job as it was, and why it waited. A finding about another subject is not shown.
type Subject struct {
	UID                           types.UID
	Source                        model.Source
	Class                         model.Class
	Priority, MinMember           int32
	NeverPreempts, HasReserved    bool
	Members, Waiting              int
	Code                          model.Code
	Needs, Has                    int64
	Detail, Unmet, Queue, Closest string
}

func subjectOf(job *model.Job, refusal *model.Refusal) Subject {
	return Subject{
		UID: job.UID, Source: job.Key.Source, Class: job.Class, Priority: job.Priority, MinMember: job.MinMember, NeverPreempts: job.NeverPreempts,
		HasReserved: job.Reservation != nil, Members: len(job.Tasks), Waiting: len(job.Pending()), Code: refusal.Code, Needs: refusal.Needs,
		Has: refusal.Has, Detail: refusal.Detail, Unmet: refusal.Unmet, Queue: job.Queue, Closest: refusal.ClosestNode(),
	}
}

// RefusedOf lists the jobs of a snapshot that were refused and that a change might start, by key.
func RefusedOf(snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal) (refused []Refused) {
	for key, refusal := range refusals {
		job := snapshot.Job(key)
		if job == nil || !refusal.LacksPlace() && refusal.Code != model.NotEnoughMembers || job.Count((*model.Task).IsBound) > 0 {
			continue
		}
		refused = append(refused, Refused{Key: key, Subject: subjectOf(job, refusal), Refusal: refusal})
	}
	slices.SortFunc(refused, func(a, b Refused) int { return a.Key.Compare(b.Key) })
	return refused
}

// Finding is what was found of a job.
type Finding struct {
	Subject Subject
	// Advice is nil where nothing was found.
	Advice *v1alpha1.Advice
	// Version is that of the snapshot, and At its time.
	Version uint64
	At      time.Time
}

// Refused returns the version of the snapshot of the last cycle, and how many jobs it refused; zero of a cycle that has decided
// something. Any goroutine may call it.
func (s *Scheduler) Refused() (version uint64, jobs int) {
	return s.progress.version.Load(), int(s.progress.refused.Load())
}

// Advise delivers all that is found at present, not to be changed afterwards. Any goroutine may call it.
func (s *Scheduler) Advise(findings map[model.JobKey]Finding) { s.mailbox.advise(findings) }

// advice returns what would let a job start that waits for that reason; nil where it is not known, or was another job or
// reason.
func (s *Scheduler) advice(job *model.Job, refusal *model.Refusal) *v1alpha1.Advice {
	finding, known := s.findings[job.Key]
	snapshot := s.state.LastSnapshot()
	if !known || finding.Subject != subjectOf(job, refusal) || finding.Version != snapshot.Version && snapshot.Now.Sub(finding.At) > findingLasts {
		return nil
	}
	return finding.Advice
}
