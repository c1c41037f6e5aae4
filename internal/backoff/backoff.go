// Package backoff delays what has failed before it is tried again, twice as long after each failure. Backoff is the one type
// for that; Delays are the back-offs of the scheduling cycle: jobs, nodes and pods that a snapshot shows as delayed.
//
// Nothing here reads a clock, and nothing is kept across a restart: after one, everything may be tried once more.
package backoff

import (
	"maps"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Policy is how long the delays are.
type Policy struct {
	// First is the first delay, where it is shorter than Min; zero is Min.
	First time.Duration
	// Min is the shortest further delay, Max the longest of all.
	Min, Max time.Duration
}

// Backoff keeps the delay of each key that has failed. It belongs to one goroutine.
//
// Invariant: between two failures of a key that both delay it lies the delay of the first.
type Backoff[K comparable] struct {
	policy  Policy
	entries map[K]entry
}

type entry struct {
	reason *model.Refusal
	until  time.Time
	// delay is the last one; the next failure doubles it.
	delay time.Duration
}

// New returns a back-off without failures.
func New[K comparable](policy Policy) *Backoff[K] {
	return &Backoff[K]{policy: policy, entries: map[K]entry{}}
}

// Fail delays a key from now on, twice as long as the last time. A failure during the delay, such as of another call of the
// same decision, is the same failure and changes nothing.
func (b *Backoff[K]) Fail(key K, reason *model.Refusal, now time.Time) {
	last, known := b.entries[key]
	if last.until.After(now) {
		return
	}
	delay := min(b.policy.Max, max(b.policy.Min, 2*last.delay))
	if !known && b.policy.First > 0 {
		delay = b.policy.First
	}
	b.entries[key] = entry{reason: reason, until: now.Add(delay), delay: delay}
}

// Clone returns a copy that goes its own way.
func (b *Backoff[K]) Clone() *Backoff[K] {
	return &Backoff[K]{policy: b.policy, entries: maps.Clone(b.entries)}
}

// Delayed reports whether the key is delayed.
func (b *Backoff[K]) Delayed(key K, now time.Time) bool { return b.entries[key].until.After(now) }

// Until returns when the last delay of the key ends, or ended; zero when there was none.
func (b *Backoff[K]) Until(key K) time.Time { return b.entries[key].until }

// Reason returns why the key was delayed the last time, nil when it was not.
func (b *Backoff[K]) Reason(key K) *model.Refusal { return b.entries[key].reason }

// Reset forgets the failures of a key.
func (b *Backoff[K]) Reset(key K) { delete(b.entries, key) }

// Len returns how many keys are remembered.
func (b *Backoff[K]) Len() int { return len(b.entries) }

// Active returns why each delayed key is delayed, and when the first delay ends; zero when there is none. It forgets keys that
// no longer exist, and those whose delay ended longer ago than the longest delay.
func (b *Backoff[K]) Active(now time.Time, exists func(K) bool) (reasons map[K]*model.Refusal, wake time.Time) {
	reasons = make(map[K]*model.Refusal, len(b.entries))
	for key, e := range b.entries {
		switch {
		case now.Sub(e.until) > b.policy.Max || !exists(key):
			delete(b.entries, key)
		case e.until.After(now):
			reasons[key] = e.reason
			wake = model.Sooner(wake, e.until)
		}
	}
	return reasons, wake
}
