package framework

import (
	"math"
	"time"
)

// overtime is how much longer than the rest of a budget what is not the first in its cycle may take.
const overtime = time.Second

// Budget is the time of a cycle for what a plugin does that may be slow, since all jobs wait for it: calls of other processes,
// searches that may explode. It also shares that time where a cycle does not suffice. A plugin makes one for each configuration.
//
// The work is for kinds, such as jobs, each in a namespace. Cycles with too little time, one after another, are a shortage. In
// a shortage those of the namespaces come first that have used the least time, and in a namespace no kind has a second turn
// before all others that ask have had one. So a namespace with many kinds, with new ones in each cycle, or with kinds that
// take long delays another one by a cycle at a time, and its own kinds alone by the number of all.
//
// A kind that had all the time of a cycle has had its turn, even if that did not suffice.
//
// Time only refuses: who asks with a kind that was cut must decide nothing for it in the cycle.
//
// Invariant: only the session's goroutine uses it.
type Budget[Kind comparable] struct {
	now   func() time.Time
	limit time.Duration
	// total is what was used in this cycle. level is how much a namespace may have used to be admitted in it.
	total, level time.Duration
	shares       map[string]*share[Kind]
}

// share is a namespace: the time that it used in this cycle, and in those of the shortage before.
type share[Kind comparable] struct {
	spent, used time.Duration
	turns       map[Kind]*turn
}

// turn is a kind. had reports that it had its turn in an earlier cycle of the shortage. In this cycle it was asked for, perhaps
// with all the time of the cycle before it (whole), and cut, which is refused, or not brought to its end, for lack of time.
type turn struct{ had, asked, whole, cut bool }

// over reports that the kind has had its turn.
func (t *turn) over() bool { return t.had || t.asked && (!t.cut || t.whole) }

// NewBudget returns a budget of so much time for each cycle.
func NewBudget[Kind comparable](limit time.Duration, now func() time.Time) *Budget[Kind] {
	return &Budget[Kind]{now: now, limit: limit, level: math.MaxInt64, shares: map[string]*share[Kind]{}}
}

// Begin begins a cycle.
func (b *Budget[Kind]) Begin() {
	b.total, b.level = 0, math.MaxInt64
	short := false
	for _, s := range b.shares {
		short = s.begin() || short
	}
	if !short { // kinds that have had their turn are no reason to go on with a shortage
		clear(b.shares)
	}
	for _, s := range b.shares {
		for _, t := range s.turns {
			if t.cut {
				b.level = min(b.level, s.used)
			}
			*t = turn{had: t.had}
		}
	}
}

// begin adds the last cycle to the shortage, as far as the namespace is concerned, and reports whether any of its kinds waits for
// its turn. When none does, all of them may have another one.
func (s *share[Kind]) begin() (short bool) {
	s.used, s.spent = s.used+s.spent, 0
	for kind, t := range s.turns {
		if !t.asked && !t.cut { // it did not come up
			delete(s.turns, kind)
		}
		short = short || t.cut && !t.over()
	}
	for _, t := range s.turns {
		t.had = short && t.over()
	}
	return short
}

// Admit reports whether something may be done for a kind in this cycle; the kind is cut when not.
func (b *Budget[Kind]) Admit(kind Kind, namespace string) bool {
	s, t := b.turn(kind, namespace)
	if t.had || b.total >= b.limit || s.used > b.level {
		t.cut = true
		return false
	}
	t.whole = t.whole || !t.asked && b.total == 0
	t.asked = true
	return true
}

// Timeout returns how long what is admitted next may take, of which most is its own limit. The first of a cycle has all of
// that: what needs more than the budget would never come to its end.
func (b *Budget[Kind]) Timeout(most time.Duration) time.Duration {
	if b.total == 0 {
		return most
	}
	return min(most, b.limit-b.total+overtime)
}

// Do does something that was admitted, and counts its time.
func (b *Budget[Kind]) Do(kind Kind, namespace string, something func()) {
	began := b.now()
	something()
	took := b.now().Sub(began)
	s, _ := b.turn(kind, namespace)
	s.spent += took
	b.total += took
}

// Cut takes down that something for a kind did not come to its end for lack of time.
func (b *Budget[Kind]) Cut(kind Kind, namespace string) {
	_, t := b.turn(kind, namespace)
	t.cut = true
}

// WasCut reports whether the kind was cut in this cycle; whole that it had all the time of the cycle.
func (b *Budget[Kind]) WasCut(kind Kind, namespace string) (cut, whole bool) {
	if s := b.shares[namespace]; s != nil && s.turns[kind] != nil {
		return s.turns[kind].cut, s.turns[kind].whole
	}
	return false, false
}

func (b *Budget[Kind]) turn(kind Kind, namespace string) (*share[Kind], *turn) {
	s := b.shares[namespace]
	if s == nil {
		s = &share[Kind]{turns: map[Kind]*turn{}}
		b.shares[namespace] = s
	}
	t := s.turns[kind]
	if t == nil {
		t = &turn{}
		s.turns[kind] = t
	}
	return s, t
}
