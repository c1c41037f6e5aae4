package preempt

// This file is the one order of sets of victims. A search compares, adds and gives back by the table order, and by nothing else.
// A new key is a constant, its row in the table, and a case of TestEachKeyDecides, which fails while there is none. With the
// order change the stories that name it (testdata/basics.txt, gangs.txt, grace.txt), docs/configuration.md and decision 10.
//
// Two files name keys, too, and stay right without a new one: domaincost.go, whose bound of a key that it leaves out is zero, and
// solver_test.go, which compares by a second text on purpose. Two orders do not choose a plan: model.CompareVictims, which says
// which member a job spares, and that in review.go, in which an extender reads the victims.
//
// Invariant: each victim that is added to a set makes it cost more. So what a unit costs alone is a lower bound for every set
// with it, what a node costs before others have lost members is one for after, and a set of which nothing can be released has
// no cheaper part that suffices.

import (
	"cmp"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// cost is what a set of victims costs, by key: lower is better, and the first key in which two sets differ decides. The zero cost
// is that of no victim.
type cost [keys]int64

// The keys of the order, as kube-scheduler compares nodes, for a whole plan. Broken gangs stand before the sum, since the sum,
// moved up as it is, counts pods first of all: behind it they would never decide anything.
const (
	violations    = iota // how many pods too many disruption budgets lose
	belowShare           // whether another queue is below its share without a unit
	endedOfOthers        // how many gangs of other queues end that have their minimum
	queueRank            // the place of the queue that can least spare its units
	highest              // the highest priority
	gangsEnded           // how many gangs end
	priorities           // the sum of priorities, each moved up so that none is negative and more pods cost more
	pods                 // how many victims there are
	grace                // how long the last of them may take to end, in seconds
	age                  // how early the first of those of the highest priority started
	keys
)

// key is one thing in which sets of victims are compared.
type key struct {
	// of is what a unit costs alone, unless it depends on the set; price is what the unit costs other queues.
	of func(u *victimUnit, price *framework.Price) int64
	// join is the cost of two sets together.
	join func(k int, a, b *cost) int64
}

var order = [keys]key{
	violations:    {of: func(*victimUnit, *framework.Price) int64 { return 0 }, join: larger}, // the guard says it of a set
	belowShare:    {of: func(_ *victimUnit, price *framework.Price) int64 { return int64(price.BelowShare) }, join: larger},
	endedOfOthers: {of: func(_ *victimUnit, price *framework.Price) int64 { return int64(price.Gangs) }, join: sum},
	queueRank:     {of: func(_ *victimUnit, price *framework.Price) int64 { return int64(price.Rank) }, join: larger},
	highest:       {of: func(u *victimUnit, _ *framework.Price) int64 { return 1 + weight(u.priority()) }, join: larger},
	gangsEnded:    {of: func(u *victimUnit, _ *framework.Price) int64 { return u.endsGang() }, join: sum},
	priorities:    {of: func(u *victimUnit, _ *framework.Price) int64 { return u.sumOf(u.of.weightOf) }, join: sum},
	pods:          {of: func(u *victimUnit, _ *framework.Price) int64 { return int64(len(u.tasks)) }, join: sum},
	grace:         {of: func(u *victimUnit, _ *framework.Price) int64 { return u.most(graceOf) }, join: larger},
	age:           {of: func(u *victimUnit, _ *framework.Price) int64 { return u.most(ageOf) }, join: ofHighest},
}

func larger(k int, a, b *cost) int64 { return max(a[k], b[k]) }

func sum(k int, a, b *cost) int64 { return a[k] + b[k] }

// ofHighest is the larger one, among victims of the highest priority.
func ofHighest(k int, a, b *cost) int64 {
	switch cmp.Compare(a[highest], b[highest]) {
	case -1:
		return b[k]
	case 1:
		return a[k]
	}
	return max(a[k], b[k])
}

func graceOf(task *model.Task) int64 { return task.GraceSeconds }

func ageOf(task *model.Task) int64 { return -model.StartTime(task).UnixMilli() }

// weight is a victim's part in the sum of priorities.
func weight(priority int32) int64 { return int64(priority) - math.MinInt32 }

// costOf returns what a unit costs alone.
func costOf(u *victimUnit, price framework.Price) (c cost) {
	for k := range c {
		c[k] = order[k].of(u, &price)
	}
	return c
}

// compare is negative when a is to be preferred.
func (a *cost) compare(b *cost) int { return slices.Compare(a[:], b[:]) }

// plus returns the cost of both sets; of violations, which do not add up, it is a lower bound.
func (a *cost) plus(b *cost) (both cost) {
	for k := range both {
		both[k] = order[k].join(k, a, b)
	}
	return both
}

// sameLevel reports whether two units are equal up to the highest priority.
func (a *cost) sameLevel(b *cost) bool { return slices.Equal(a[:highest+1], b[:highest+1]) }

// compareUnits orders units by what they cost. The last key is the name: which of equals goes is a rule, too. Units are given
// back in the reverse order.
func compareUnits(a, b *victimUnit) int {
	return cmp.Or(
		a.cost.compare(&b.cost), cmp.Compare(a.tasks[0].Namespace, b.tasks[0].Namespace), cmp.Compare(a.tasks[0].Name, b.tasks[0].Name),
		cmp.Compare(len(a.tasks), len(b.tasks)))
}

// sortUnits brings units in the order in which they go.
func sortUnits(units []victimUnit) {
	slices.SortFunc(units, func(a, b victimUnit) int { return compareUnits(&a, &b) })
}
