package scheduler

import (
	"context"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// lastCycle is what the next one needs to know of it.
type lastCycle struct {
	decided bool
	// changed reports that something has happened since that may change an answer.
	changed bool
	// expires is when time alone may change one.
	expires time.Time
	// awaitsWatch reports that watches may show what changes an answer, without an event that wakes the loop; expires allows for it.
	awaitsWatch bool
}

// period is how long after a cycle that decided something the next one runs at the latest: a check that nothing was missed.
const period = 5 * time.Second

// resyncPeriod is how long nothing may have changed before a cycle runs nevertheless: what kube-scheduler's filters read has
// more sources than the watches that wake the loop.
const resyncPeriod = time.Minute

// ownEventDelay is how long after an event about an object that only kube-scheduler's plugins read there is one more cycle.
// They receive it through their own handlers, which may run later than ours: a cycle that the event has started may have
// asked them before.
const ownEventDelay = time.Second

// wouldRepeat reports that a cycle would decide what the last one did: nothing. The same snapshot leads to the same decisions.
func (s *Scheduler) wouldRepeat(now time.Time) bool {
	return !s.last.changed && !s.last.decided && now.Before(s.last.expires)
}

// wake asks for a cycle, because something has changed.
func (s *Scheduler) wake(now time.Time) {
	s.last.changed = true
	s.cycle.debounce(now, debouncePeriod, maxDebounce)
}

// expires returns the earliest time at which something that a cycle saw may change without an event. until is when the first of
// its answers may, pass when the first delay after a failure ends; zero for none.
func (s *Scheduler) expires(until, pass, now time.Time) time.Time {
	first := model.Sooner(model.Sooner(until, pass), now.Add(s.options.Resync))
	if len(s.refusals) > 0 && s.state.HasAssumedBinds() { // no victims until the watch shows them on their nodes, which makes no cycle
		first = model.Sooner(first, now.Add(engine.RetryAfter))
	}
	if s.echo.After(now) {
		first = model.Sooner(first, s.echo)
	}
	wake, _ := s.state.NextWake(now)
	return model.Sooner(first, wake)
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
