package engine

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// idleResult is what a session came to that decided nothing. The same snapshot leads to the same decisions, so that the next
// session need not look for them: a large backlog of jobs that cannot start costs nothing until something changes.
type idleResult struct {
	snapshot *model.Snapshot
	version  uint64
	refusals map[model.JobKey]*model.Refusal
	// wake is when time alone may change an answer; zero is never.
	wake time.Time
}

// idleResultFor returns what the last session came to if a session on this snapshot would come to the same, else nil. That is
// unknown of a snapshot without a version.
func (c *Cache) idleResultFor(snapshot *model.Snapshot, profile *Profile) *idleResult {
	switch {
	case c == nil || c.rest == nil || c.profile != profile || c.rest.snapshot != snapshot || c.rest.version != snapshot.Version:
	case snapshot.HasBackoff():
	case !c.rest.wake.IsZero() && !snapshot.Now.Before(c.rest.wake):
	default:
		return c.rest
	}
	return nil
}

// rearm asks to be woken as the session did.
func (r *idleResult) rearm(options Options) {
	if options.Wake != nil && !r.wake.IsZero() {
		options.Wake(r.wake)
	}
}

// recordIdle returns what the session came to, nil when the next one may come to something else although nothing changes:
// because of what this one decided, of what was said from outside, or of objects that are in no snapshot, which may decide
// about tasks that ask for volumes or devices.
func (s *Session) recordIdle(refusals map[model.JobKey]*model.Refusal) *idleResult {
	snapshot := s.Snapshot
	if s.decided || s.reach == ForNow || snapshot.Version == 0 || snapshot.HasBackoff() {
		return nil
	}
	for _, refusal := range refusals {
		if refusal.Transient {
			return nil
		}
	}
	if expectedStartDrifts(snapshot) {
		return nil
	}
	return &idleResult{snapshot: snapshot, version: snapshot.Version, refusals: refusals, wake: s.wake}
}

// expectedStartDrifts reports whether the expected start of some job moves with the time: capacity is kept for it, and
// it may count on the end of pods that have not begun.
func expectedStartDrifts(snapshot *model.Snapshot) bool {
	if !slices.ContainsFunc(snapshot.Jobs, func(job *model.Job) bool { return job.Reservation != nil }) {
		return false
	}
	return slices.ContainsFunc(snapshot.Nodes, func(node *model.Node) bool {
		return slices.ContainsFunc(node.Tasks, func(task *model.Task) bool {
			return task.Status == model.Binding || task.Status == model.Bound
		})
	})
}
