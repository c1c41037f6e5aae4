package extender

import (
	"fmt"
	"math"
	"time"
)

const (
	// cycleBudget is for how long the calls of a cycle may have taken when another one is made: all jobs wait for them. The last
	// one may take overtime longer, and the first one its whole httpTimeout: an extender that needs more than the budget for each
	// answer would never give one.
	cycleBudget = 5 * time.Second
	overtime    = time.Second
	// maxTimeout is the longest httpTimeout.
	maxTimeout = 30 * time.Second
)

// budget is the time for calls, all extenders and verbs together, and how it is shared where a cycle does not suffice. It lives
// as long as the configuration.
//
// The cycles from the first with too little time to the first with enough are a round. In a round no kind of pods is asked about
// again before all others, and of those the namespaces come first for which the least time was used: a user who makes many
// kinds, or kinds that take long, delays others by one cycle for each namespace, and not by all of the kinds.
//
// Invariant: only the session's goroutine uses it.
type budget struct {
	now   func() time.Time
	limit time.Duration

	// asked are the kinds about which a call of this cycle was made, cut those about which one was not, or not to its end, for
	// lack of time; spent is how long the calls took, by namespace, and total all of them.
	asked, cut map[requestKey]bool
	spent      map[string]time.Duration
	total      time.Duration

	// done and used are the kinds that were asked about in earlier cycles of the round, and the time of these cycles by namespace.
	// level is how much a namespace may have used to be asked about in this one.
	done  map[requestKey]bool
	used  map[string]time.Duration
	level time.Duration
}

func newBudget(limit time.Duration, now func() time.Time) *budget {
	return &budget{
		now: now, limit: limit, asked: map[requestKey]bool{}, cut: map[requestKey]bool{}, spent: map[string]time.Duration{},
		done: map[requestKey]bool{}, used: map[string]time.Duration{},
	}
}

// begin begins a cycle.
func (b *budget) begin() {
	b.level = math.MaxInt64
	if len(b.cut) == 0 {
		clear(b.done)
		clear(b.used)
	} else {
		b.goOn()
	}
	clear(b.asked)
	clear(b.cut)
	clear(b.spent)
	b.total = 0
}

// goOn adds the last cycle to the round.
func (b *budget) goOn() {
	for kind := range b.asked {
		b.done[kind] = b.done[kind] || !b.cut[kind]
	}
	for namespace, spent := range b.spent {
		b.used[namespace] += spent
	}
	for kind := range b.cut {
		b.level = min(b.level, b.used[kind.namespace])
	}
}

// admit returns why no call about pods of a kind is made in this cycle, nil when one is.
func (b *budget) admit(kind requestKey, verb string) error {
	enough := b.total < b.limit && b.used[kind.namespace] <= b.level
	switch {
	case b.done[kind]: // it is no reason to go on with the round
	case !enough:
		b.cut[kind] = true
	default:
		b.asked[kind] = true
		return nil
	}
	return b.later(verb)
}

func (b *budget) later(verb string) error {
	return fmt.Errorf("%s: not asked in this cycle, since other pods used its %s for calls of extenders; asked in a later one", verb, b.limit)
}

// timeout returns how long the next call may take, of which the extender's own limit is most.
func (b *budget) timeout(most time.Duration) time.Duration {
	if b.total == 0 {
		return most
	}
	return min(most, b.limit-b.total+overtime)
}

// spend counts a call about pods of a kind that began at that time.
func (b *budget) spend(kind requestKey, began time.Time) {
	took := b.now().Sub(began)
	b.spent[kind.namespace] += took
	b.total += took
}
