package scheduler

import "time"

// timer says when something is to be done: at a fixed moment at the latest, and sooner once a burst of events has ended.
// The zero timer never rings.
type timer struct {
	// fixed is that moment; zero is none.
	fixed       time.Time
	burst       time.Time
	burstBegan  time.Time
	insideBurst bool
}

// at sets the fixed moment and ends the burst.
func (t *timer) at(when time.Time) { *t = timer{fixed: when} }

// atMost brings the fixed moment forward to this one if it would come later.
func (t *timer) atMost(when time.Time) {
	if t.fixed.IsZero() || when.Before(t.fixed) {
		t.fixed = when
	}
}

// debounce begins or goes on with a burst: the timer rings after so much quiet, and at the latest so long after the burst
// began.
func (t *timer) debounce(now time.Time, quiet, patience time.Duration) {
	if !t.insideBurst {
		t.insideBurst, t.burstBegan = true, now
	}
	t.burst = now.Add(quiet)
	if limit := t.burstBegan.Add(patience); limit.Before(t.burst) {
		t.burst = limit
	}
}

// next returns when the timer rings; ok is false when it never does.
func (t *timer) next() (when time.Time, ok bool) {
	if t.insideBurst && (t.fixed.IsZero() || t.burst.Before(t.fixed)) {
		return t.burst, true
	}
	return t.fixed, !t.fixed.IsZero()
}

// due reports whether the moment has come.
func (t *timer) due(now time.Time) bool {
	when, ok := t.next()
	return ok && !when.After(now)
}
