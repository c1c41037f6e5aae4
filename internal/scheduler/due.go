package scheduler

import (
	"context"
	"time"
)

// lastCycle is what the next one needs to know of it.
type lastCycle struct {
	decided bool
	// changed reports that something has happened since that may change an answer.
	changed bool
	// expires is when time alone may change one.
	expires time.Time
}

// period is how long after a cycle that decided something the next one runs at the latest: a check that nothing was missed.
const period = 5 * time.Second

// resyncPeriod is how long nothing may have changed before a cycle runs all the same: what kube-scheduler's filters read has
// more sources than the watches that wake the loop.
const resyncPeriod = time.Minute

// transientRetry is how long a refusal is believed that came from outside the cluster, see model.Refusal.Transient; and how long
// any is while a bind is assumed: the pod is no victim until the watch shows it on its node, which makes no cycle.
const transientRetry = 5 * time.Second

// ownEventDelay is how long after an event about an object that only kube-scheduler's plugins read there is one more cycle.
// They receive it through their own handlers, which may run later than ours: a cycle that the event has started may have
// asked them before.
const ownEventDelay = time.Second

func (l *lastCycle) expireBy(when time.Time, ok bool) {
	if ok && when.Before(l.expires) {
		l.expires = when
	}
}

// wouldRepeat reports that a cycle would decide what the last one did: nothing. The same snapshot leads to the same decisions.
func (s *Scheduler) wouldRepeat(now time.Time) bool {
	if s.last.changed || s.last.decided || !now.Before(s.last.expires) {
		return false
	}
	s.cycle.atMost(s.last.expires)
	return true
}

// wake asks for a cycle, because something has changed.
func (s *Scheduler) wake(now time.Time) {
	s.last.changed = true
	s.cycle.debounce(now, debouncePeriod, maxDebounce)
}

// expireAnswers sets the earliest time at which something that the last cycle saw may change without an event. pass is when the
// first delay after a failure ends; zero for none.
func (s *Scheduler) expireAnswers(pass, now time.Time) {
	s.last.expireBy(pass, !pass.IsZero())
	for _, refusal := range s.refusals {
		s.last.expireBy(now.Add(transientRetry), refusal.Transient)
	}
	s.last.expireBy(now.Add(transientRetry), len(s.refusals) > 0 && s.state.HasAssumedBinds())
	s.last.expireBy(s.state.NextWake(now))
	s.last.expireBy(s.echo, s.echo.After(now))
}

// sleep waits until the mailbox has something or something is due; false when the context has ended.
func (s *Scheduler) sleep(ctx context.Context) bool {
	var expired <-chan time.Time
	if wake, ok := s.NextWake(); ok {
		alarm := s.options.Clock.NewTimer(max(0, wake.Sub(s.options.Clock.Now())))
		defer alarm.Stop()
		expired = alarm.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.mailbox.ready:
	case <-expired:
	}
	return true
}

// NextWake returns when the next step is due although the mailbox stays empty; ok is false when none is.
func (s *Scheduler) NextWake() (at time.Time, ok bool) {
	if !s.Leading() {
		return time.Time{}, false
	}
	var first timer
	timers := []func() (time.Time, bool){s.cycle.next, s.machine.NextWake, s.uncertain.next}
	if !s.cycle.insideBurst {
		timers = append(timers, s.reports.next)
	}
	for _, next := range timers {
		if when, ok := next(); ok {
			first.atMost(when)
		}
	}
	return first.next()
}
