package report

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
)

// This file bounds what is written again about objects that were written before: a user who makes the reasons of thousands of
// pods change, and change again, makes no more writes than the budget of the namespace. The first status of an object, what a
// restart reads and the phases of a start are outside of it, see urgent; so are events of binds and evictions.

const (
	// budgetWindow is for how long a budget is; the next one begins when something is written after it.
	budgetWindow = 10 * time.Second
	// mostRepeated is how many writes of a window are about objects of one namespace, for groups and for pods each.
	mostRepeated = 500
)

// budget counts the repeated writes of a window. The zero value is ready.
type budget struct {
	spent map[account]int
	ends  time.Time
}

// account is what a budget is for: the groups of a namespace, or its pods.
type account struct {
	namespace string
	kind      accountKind
}

type accountKind int8

const (
	ofGroups accountKind = iota
	ofPods
)

// take reports whether one more write is in the budget, and counts it.
func (b *budget) take(from account, now time.Time) bool {
	if !now.Before(b.ends) {
		b.spent, b.ends = map[account]int{}, now.Add(budgetWindow)
	}
	if b.spent[from] >= mostRepeated {
		return false
	}
	b.spent[from]++
	return true
}

// exceeded reports whether the budget is used up, or was lately.
func (b *budget) exceeded(from account, now time.Time) bool {
	return b.spent[from] >= mostRepeated && now.Before(b.ends.Add(budgetWindow))
}

// repeated is the writes about an object that was written before: its status, and the event that goes with it.
type repeated struct {
	from account
	// last is when it was written last; sent records that it is written now.
	last   time.Time
	writes []commit.Write
	sent   func()
}

// writeRepeated makes the repeated writes that are in the budget, those about the objects first that were written longest ago.
// What is left is made again by a later call of Report, from what is true then.
func (r *Reporter) writeRepeated(now time.Time) {
	slices.SortStableFunc(r.repeated, func(a, b repeated) int { return a.last.Compare(b.last) })
	for _, write := range r.repeated {
		if !r.budget.take(write.from, now) {
			r.requeue(r.budget.ends)
			continue
		}
		r.writes = append(r.writes, write.writes...)
		write.sent()
	}
	r.repeated = nil
}
