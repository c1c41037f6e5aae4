package preempt

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// pdbBudget counts what plans take from disruption budgets.
type pdbBudget struct {
	budgets []model.Budget
	// strict reports that a plan which asks too much of a budget is none.
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

// evictionPending reports whether a pod's eviction was decided and the pod does not say so yet: its budgets do not know of it.
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
