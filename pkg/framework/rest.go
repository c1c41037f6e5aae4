package framework

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// rest is what a session came to that decided nothing. The same snapshot leads to the same decisions, so that the next session
// need not look for them: a large backlog of jobs that cannot start costs nothing until something changes.
type rest struct {
	snapshot *model.Snapshot
	version  uint64
	refusals map[model.JobKey]*model.Refusal
	// wake is when time alone may change an answer; zero is never.
	wake time.Time
}

// atRest returns what the last session came to if a session on this snapshot would come to the same, else nil. Nobody knows that
// of a snapshot without a version.
func (m *Memory) atRest(snapshot *model.Snapshot, profile *Profile) *rest {
	switch {
	case m == nil || m.rest == nil || m.profile != profile || m.rest.snapshot != snapshot || m.rest.version != snapshot.Version:
	case snapshot.Passing():
	case !m.rest.wake.IsZero() && !snapshot.Now.Before(m.rest.wake):
	default:
		return m.rest
	}
	return nil
}

// wakeAgain asks to be woken as the session did.
func (r *rest) wakeAgain(options Options) {
	if options.Wake != nil && !r.wake.IsZero() {
		options.Wake(r.wake)
	}
}

// rest returns what the session came to, nil when the next one may come to something else although nothing changes: because of
// what this one decided, of what was said from outside, or of objects that are in no snapshot, which may decide about tasks
// that ask for volumes or devices.
func (s *Session) rest() *rest {
	snapshot := s.Snapshot
	if s.decided || s.reach == ForNow || snapshot.Version == 0 || snapshot.Passing() {
		return nil
	}
	for _, refusal := range s.refusals {
		if refusal.Expires {
			return nil
		}
	}
	if slips(snapshot) {
		return nil
	}
	return &rest{snapshot: snapshot, version: snapshot.Version, refusals: s.refusals, wake: s.wake}
}

// slips tells whether the start that some job is told to expect moves with the time: room is kept for it, and it may count on the
// end of pods that have not begun.
func slips(snapshot *model.Snapshot) bool {
	if !slices.ContainsFunc(snapshot.Jobs, func(job *model.Job) bool { return job.Reservation != nil }) {
		return false
	}
	return slices.ContainsFunc(snapshot.Nodes, func(node *model.Node) bool {
		return slices.ContainsFunc(node.Tasks, func(task *model.Task) bool {
			return task.Status == model.Binding || task.Status == model.Bound
		})
	})
}
