package preempt

import (
	"cmp"
	"math"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// cost is what a set of victims costs, in the terms in which kube-scheduler compares nodes, for a whole plan.
type cost struct {
	// pdbViolations is how many pods too many some budget loses.
	pdbViolations int
	// highest is the highest priority among the victims.
	highest int32
	// brokenGangs is how many gangs end.
	brokenGangs int
	// sum is the sum of the victims' priorities, each moved up so that none is negative and more pods cost more.
	sum int64
	// pods is how many victims there are.
	pods int
	// latestStart is when the first of those of the highest priority started.
	latestStart time.Time
}

// compare is negative when a is to be preferred.
//
// Broken gangs stand before the sum, since the sum, moved up as it is, counts pods first of all: behind it they would never
// decide anything.
func (a *cost) compare(b *cost) int {
	if a.pods == 0 || b.pods == 0 {
		return cmp.Compare(a.pods, b.pods)
	}
	return cmp.Or(
		cmp.Compare(a.pdbViolations, b.pdbViolations), cmp.Compare(a.highest, b.highest), cmp.Compare(a.brokenGangs, b.brokenGangs),
		cmp.Compare(a.sum, b.sum), cmp.Compare(a.pods, b.pods), b.latestStart.Compare(a.latestStart))
}

// lowerBoundLess tells whether a is less in the first thing in which they differ that does not add up with more victims.
func (a *cost) lowerBoundLess(b *cost) bool {
	return cmp.Or(
		cmp.Compare(a.pdbViolations, b.pdbViolations), cmp.Compare(a.highest, b.highest), cmp.Compare(a.brokenGangs, b.brokenGangs)) < 0
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
		highest: max(a.highest, b.highest), brokenGangs: a.brokenGangs + b.brokenGangs, sum: a.sum + b.sum, pods: a.pods + b.pods, latestStart: a.latestStart,
	}
	if b.highest > a.highest || b.highest == a.highest && b.latestStart.Before(a.latestStart) {
		both.latestStart = b.latestStart
	}
	return both
}

// started returns since when a pod has run, as far as anybody knows.
func started(task *model.Task) time.Time {
	if at := task.Pod.Status.StartTime; at != nil {
		return at.Time
	}
	return task.Created
}

// weight is a victim's part in the sum.
func weight(priority int32) int64 { return int64(priority) - math.MinInt32 }

// pdbBudget counts what plans take from disruption budgets.
type pdbBudget struct {
	budgets []model.Budget
	// strict tells that a plan which asks too much of a budget is none.
	strict bool
	// used is by budget, of all plans that were decided in this run, or before and are not carried out yet.
	used []int32
	// violations has the budgets of each task, once it was asked for.
	violations map[*model.Task][]int
}

func newPDBBudget(snapshot *model.Snapshot, strict bool) *pdbBudget {
	g := &pdbBudget{budgets: snapshot.Budgets, strict: strict, used: make([]int32, len(snapshot.Budgets)), violations: map[*model.Task][]int{}}
	if len(g.budgets) == 0 {
		return g
	}
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if evictionPending(task) {
				for _, budget := range g.budgetsOf(task) {
					g.used[budget]++
				}
			}
		}
	}
	return g
}

// evictionPending tells whether a pod's eviction was decided and the pod does not say so yet: its budgets do not know of it.
func evictionPending(task *model.Task) bool {
	return task.Status == model.Releasing && task.Pod.DeletionTimestamp == nil
}

// budgetsOf returns the budgets that count the task.
func (g *pdbBudget) budgetsOf(task *model.Task) []int {
	if len(g.budgets) == 0 {
		return nil
	}
	over, known := g.violations[task]
	if !known {
		for i := range g.budgets {
			if g.budgets[i].Covers(task) {
				over = append(over, i)
			}
		}
		g.violations[task] = over
	}
	return over
}

// violationsWith returns how many pods too many the budgets lose, with so many taken on top of what was decided.
func (g *pdbBudget) violationsWith(more []int32) int {
	excess := 0
	for i := range more {
		if more[i] > 0 {
			excess += int(max(0, more[i]-max(0, g.budgets[i].Allowed-g.used[i])))
		}
	}
	return excess
}
