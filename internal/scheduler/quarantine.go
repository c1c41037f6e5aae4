package scheduler

import (
	"context"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The parts of the loop outside of sessions, as logs and metrics name them when somebody panics there.
const (
	partStarts       = "starts"
	partOutcomes     = "outcomes"
	partReservations = "reservations"
	partAdvice       = "advice"
	partInspection   = "inspection"
)

// quarantineOnPanic does something about a job outside of a session. When somebody panics over it, the job is left alone for a while, as
// after a panic in a session, and the loop goes on with the others; why is returned then, else nil. Nothing is open here that
// would have to be taken back: what was done before the panic stands.
func (s *Scheduler) quarantineOnPanic(ctx context.Context, where string, key model.JobKey, now time.Time, do func()) (why *model.Refusal) {
	s.catch(where, do, func(what, stack string) {
		why = &model.Refusal{Code: model.Quarantined, Detail: where + " panicked: " + what}
		if job := s.state.Job(key); job != nil {
			s.delays.Panics.Fail(backoff.Of(job), why, now)
		}
		klog.FromContext(ctx).Error(nil, "Job quarantined", "job", key.Describe(), "where", where, "reason", why.Detail, "stack", stack)
	})
	return why
}

// recoverPanics does something that is nobody's job in particular, and that the loop can do without.
func (s *Scheduler) recoverPanics(ctx context.Context, where string, do func()) {
	s.catch(where, do, func(what, stack string) {
		klog.FromContext(ctx).Error(nil, "The loop goes on without", "where", where, "reason", what, "stack", stack)
	})
}

// catch counts a panic and says what it was.
func (s *Scheduler) catch(where string, do func(), caught func(what, stack string)) {
	defer func() {
		if what := recover(); what != nil {
			s.options.Metrics.Panicked(where)
			caught(framework.OneLine(what), string(debug.Stack()))
		}
	}()
	do()
}

// How long no cycle runs after one that failed as a whole; doubled with each further one.
const (
	minBackoff  = time.Second
	longestHold = time.Minute
)

// panicBackoff are the panics in cycles. One that can be laid on a job holds that job back; one that cannot holds back everybody. The
// zero mishaps are none.
type panicBackoff struct {
	// until is when the next cycle may run after one that nobody knows whom to blame for, delay how long that is.
	until time.Time
	delay time.Duration
	// lost and cut tell, of the cycle that runs, that it has failed, or ended early; release is when the first of those that it
	// has quarantined may be tried again.
	lost, cut bool
	clear     time.Time
}

// caught takes note of a panic in the cycle that runs.
func (s *Scheduler) caught(ctx context.Context, caught framework.RecoveredPanic, now time.Time) {
	s.options.Metrics.Panicked(caught.Where)
	log, m := klog.FromContext(ctx), &s.mishaps
	m.cut = m.cut || caught.Truncated
	if caught.Job == nil {
		m.lost = true
		m.delay = min(longestHold, max(minBackoff, 2*m.delay))
		m.until = now.Add(m.delay)
		log.Error(nil, "Cycle failed", "where", caught.Where, "reason", caught.Refusal.Detail, "stack", caught.Stack)
		return
	}
	key := caught.Job.Key
	s.delays.Panics.Fail(backoff.Of(caught.Job), caught.Refusal, now)
	if until := s.delays.Panics.Until(backoff.Of(caught.Job)); m.clear.IsZero() || until.Before(m.clear) {
		m.clear = until
	}
	log.Error(nil, "Job quarantined", "job", key.Describe(), "where", caught.Where, "reason", caught.Refusal.Detail,
		"stack", caught.Stack)
}

// scheduleRetry says when the next cycle is due because of the panics in the one that has just ended.
func (s *Scheduler) scheduleRetry(now time.Time) {
	m := &s.mishaps
	s.options.Metrics.Failing(m.lost)
	s.last.transientRetryAt(m.clear, !m.clear.IsZero())
	switch {
	case m.lost:
		s.last.changed = true
		s.cycle.at(m.until)
	case m.cut: // those who had no turn come first now
		s.wake(now)
	}
	if !m.lost {
		m.until, m.delay = time.Time{}, 0
	}
	m.lost, m.cut, m.clear = false, false, time.Time{}
}

// cyclesSuspended tells that no cycle may run yet, and sees to it that one does when it may. Starts end in their time all the same.
func (s *Scheduler) cyclesSuspended(ctx context.Context, now time.Time) bool {
	if !now.Before(s.mishaps.until) {
		return false
	}
	s.cycle.at(s.mishaps.until)
	s.checkOverdue(ctx, now)
	return true
}
