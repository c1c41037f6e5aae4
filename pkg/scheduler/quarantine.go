package scheduler

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// mishaps are the panics in cycles. One that can be laid on a job holds that job back; one that cannot holds back everybody. The
// zero mishaps are none.
type mishaps struct {
	// until is when the next cycle may run after one that nobody knows whom to blame for, delay how long that is.
	until time.Time
	delay time.Duration
	// lost and cut tell, of the cycle that runs, that it has failed, or ended early; release is when the first of those that it
	// has quarantined may be tried again.
	lost, cut bool
	release   time.Time
}

// caught takes note of a panic in the cycle that runs.
func (s *Scheduler) caught(ctx context.Context, caught framework.Caught, now time.Time) {
	s.options.Metrics.panicked(caught.Where)
	log, m := klog.FromContext(ctx), &s.mishaps
	m.cut = m.cut || caught.Cut
	if caught.Job == nil {
		m.lost = true
		m.delay = min(longestHold, max(firstHold, 2*m.delay))
		m.until = now.Add(m.delay)
		log.Error(nil, "Cycle failed", "where", caught.Where, "reason", caught.Refusal.Detail, "stack", caught.Stack)
		return
	}
	key := caught.Job.Key
	s.backoff.hold(key, caught.Job.UID, caught.Refusal, firstHold, now)
	if until := s.backoff[key].until; m.release.IsZero() || until.Before(m.release) {
		m.release = until
	}
	log.Error(nil, "Job quarantined", "job", key.Described(), "where", caught.Where, "reason", caught.Refusal.Detail,
		"stack", caught.Stack)
}

// afterPanics says when the next cycle is due because of the panics in the one that has just ended.
func (s *Scheduler) afterPanics(now time.Time) {
	m := &s.mishaps
	s.options.Metrics.failed(m.lost)
	s.last.expireBy(m.release, !m.release.IsZero())
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
	m.lost, m.cut, m.release = false, false, time.Time{}
}

// stalled tells that no cycle may run yet, and sees to it that one does when it may.
func (s *Scheduler) stalled(now time.Time) bool {
	if !now.Before(s.mishaps.until) {
		return false
	}
	s.cycle.at(s.mishaps.until)
	return true
}
