package report

import "time"

// This file bounds what is written about the objects of a namespace: a user who makes the reasons of thousands of pods change,
// and change again, makes no more writes than the budget of the namespace. The first status of an object, what a restart reads
// and the phases of a start, see urgent, have a larger budget of their own, so that they do not wait for the others. Events of
// binds and evictions have none: each is about a call of its own.

const (
	// budgetWindow is for how long a budget is; the next one begins when something is written after it.
	budgetWindow = 10 * time.Second
	// mostRepeated is how many writes of a window are about objects of one namespace, for groups and for pods each.
	mostRepeated = 500
	// mostUrgent is how many are the first about their object, or urgent. All pods of a gang of the largest size that is measured
	// learn in one window that they wait, which autoscalers act on, and thousands of gangs start; a user who creates objects or
	// changes minMember in a loop makes 500 of the writes a second.
	mostUrgent = 5000
)

// budget counts the writes of a window, of which most are about one account.
type budget struct {
	most  int
	spent map[account]int
	ends  time.Time
}

// account is what a budget is for: the groups of a namespace, its pods, or its groups of other projects.
type account struct {
	namespace string
	kind      accountKind
}

type accountKind int8

const (
	ofGroups accountKind = iota
	ofPods
	ofForeign
)

// take reports whether one more write is in the budget, and counts it.
func (b *budget) take(from account, now time.Time) bool {
	if !now.Before(b.ends) {
		b.spent, b.ends = map[account]int{}, now.Add(budgetWindow)
	}
	if b.spent[from] >= b.most {
		return false
	}
	b.spent[from]++
	return true
}

// exceeded reports whether the budget is used up, or was lately.
func (b *budget) exceeded(from account, now time.Time) bool {
	return b.spent[from] >= b.most && now.Before(b.ends.Add(budgetWindow))
}

// window admits so many writes in any second; the zero value any number.
type window struct {
	// admitted are when the last of them were, a ring in which the oldest is next.
	admitted []time.Time
	next     int
}

func newWindow(most int) window { return window{admitted: make([]time.Time, most)} }

// free returns when there is one more write.
func (w *window) free() time.Time {
	if len(w.admitted) == 0 {
		return time.Time{}
	}
	return w.admitted[w.next].Add(time.Second)
}

// take counts one more write.
func (w *window) take(now time.Time) {
	if len(w.admitted) > 0 {
		w.admitted[w.next] = now
		w.next = (w.next + 1) % len(w.admitted)
	}
}
