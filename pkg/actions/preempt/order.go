package preempt

// This file is the one order of victims. Searches take units in the order of compareUnits, and the members of a gang in that of
// model.CompareVictims; they keep what costs least by cost.compare; what is not needed is released in byReprieveOrder; a
// search skips what cannot cost less by lowerBoundLess. A change of the order changes all of these, and the stories in
// testdata/basics.txt.
//
// Invariant: each victim that is added to a set makes it cost more. So what a unit costs alone is a lower bound for every set
// with it, what a node costs before others have lost members is one for after, and a set of which nothing can be released has
// no cheaper part that suffices.

import (
	"cmp"
	"math"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
)

// cost is what a set of victims costs, in the terms in which kube-scheduler compares nodes, for a whole plan.
type cost struct {
	// pdbViolations is how many pods too many some budget loses.
	pdbViolations int
	// price is what it costs other queues; zero for victims of the job's own.
	price framework.Price
	// highest is the highest priority among the victims.
	highest int32
	// brokenGangs is how many gangs end.
	brokenGangs int
	// sum is the sum of the victims' priorities, each moved up so that none is negative and more pods cost more.
	sum int64
	// pods is how many victims there are.
	pods int
	// grace is how long the last of the victims may take to end, in seconds.
	grace int64
	// earliestStart is when the first of the victims of the highest priority started.
	earliestStart time.Time
}

// comparePrices orders what other queues pay: fewer of them below their share, fewer gangs that end, those most above their
// share.
func comparePrices(a, b *framework.Price) int {
	return cmp.Or(cmp.Compare(a.BelowShare, b.BelowShare), cmp.Compare(a.Gangs, b.Gangs), cmp.Compare(a.Rank, b.Rank))
}

// compare is negative when a is to be preferred: fewer violated budgets, a lower price for other queues, a lower highest
// priority, fewer gangs that end, a smaller sum, fewer pods, a grace that ends sooner, a later start.
//
// Broken gangs stand before the sum, since the sum, moved up as it is, counts pods first of all: behind it they would never
// decide anything.
func (a *cost) compare(b *cost) int {
	if a.pods == 0 || b.pods == 0 {
		return cmp.Compare(a.pods, b.pods)
	}
	return cmp.Or(
		cmp.Compare(a.pdbViolations, b.pdbViolations), comparePrices(&a.price, &b.price), cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.brokenGangs, b.brokenGangs), cmp.Compare(a.sum, b.sum), cmp.Compare(a.pods, b.pods), cmp.Compare(a.grace, b.grace),
		b.earliestStart.Compare(a.earliestStart))
}

// lowerBoundLess reports whether a is less in the first thing in which they differ that does not add up with more victims.
func (a *cost) lowerBoundLess(b *cost) bool {
	return cmp.Or(
		cmp.Compare(a.pdbViolations, b.pdbViolations), comparePrices(&a.price, &b.price), cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.brokenGangs, b.brokenGangs)) < 0
}

// plus adds the cost of more victims, but for violations, which do not add up.
func (a *cost) plus(b *cost) cost {
	switch {
	case a.pods == 0:
		return *b
	case b.pods == 0:
		return *a
	}
	both := cost{
		price: framework.Price{
			BelowShare: max(a.price.BelowShare, b.price.BelowShare), Gangs: a.price.Gangs + b.price.Gangs, Rank: max(a.price.Rank, b.price.Rank),
		},
		highest: max(a.highest, b.highest), brokenGangs: a.brokenGangs + b.brokenGangs, sum: a.sum + b.sum, pods: a.pods + b.pods,
		grace: max(a.grace, b.grace), earliestStart: a.earliestStart,
	}
	if b.highest > a.highest || b.highest == a.highest && b.earliestStart.Before(a.earliestStart) {
		both.earliestStart = b.earliestStart
	}
	return both
}

// weight is a victim's part in the sum.
func weight(priority int32) int64 { return int64(priority) - math.MinInt32 }

// compareUnits orders units by how little they matter, in total.
func compareUnits(a, b *victimUnit) int {
	return cmp.Or(
		a.cost.compare(&b.cost), cmp.Compare(a.tasks[0].UID, b.tasks[0].UID), cmp.Compare(len(a.tasks), len(b.tasks)))
}

// byReprieveOrder orders units for giving them back: those first that a budget protects, then the most important.
func byReprieveOrder(a, b *victimUnit) int {
	return cmp.Or(
		cmp.Compare(b.cost.pdbViolations, a.cost.pdbViolations), comparePrices(&b.cost.price, &a.cost.price),
		cmp.Compare(b.cost.highest, a.cost.highest), cmp.Compare(b.cost.brokenGangs, a.cost.brokenGangs), cmp.Compare(b.cost.pods, a.cost.pods),
		cmp.Compare(b.cost.grace, a.cost.grace), a.cost.earliestStart.Compare(b.cost.earliestStart),
		cmp.Compare(a.tasks[0].UID, b.tasks[0].UID), cmp.Compare(len(b.tasks), len(a.tasks)))
}
