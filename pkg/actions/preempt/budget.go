package preempt

import (
	"github.com/tutti-sched/tutti/pkg/model"
)

// pdbBudget counts what plans take from disruption budgets.
type pdbBudget struct {
	budgets []model.Budget
	// strict reports that a plan which asks too much of a budget is none.
	strict bool
	// used is by budget, of all plans that were decided in this run, or before and are not carried out yet. Behind the budgets comes
	// one that allows nothing, for the pods that more than one covers: the Eviction API never evicts these.
	used []int32
	// asked has what model.AskedBudget says of each task, once it was asked for.
	asked map[*model.Task]int
}

func newPDBBudget(snapshot *model.Snapshot, strict bool) *pdbBudget {
	g := &pdbBudget{budgets: snapshot.Budgets, strict: strict, asked: map[*model.Task]int{}}
	if len(g.budgets) == 0 {
		return g
	}
	g.used = make([]int32, len(g.budgets)+1)
	for _, node := range snapshot.Nodes {
		for _, task := range node.Tasks {
			if evictionPending(task) {
				g.charge(g.used, task, 1)
			}
		}
	}
	return g
}

// evictionPending reports whether a pod's eviction was decided and the pod does not say so yet: its budgets do not know of it.
func evictionPending(task *model.Task) bool {
	return task.Status == model.Releasing && task.Pod.DeletionTimestamp == nil
}

// charge adds the eviction of a task to sums by budget, or takes it off. A task that goes without its budget costs it nothing.
func (g *pdbBudget) charge(sums []int32, task *model.Task, sign int32) {
	if len(g.budgets) == 0 {
		return
	}
	asked, known := g.asked[task]
	if !known {
		asked = model.AskedBudget(g.budgets, task)
		g.asked[task] = asked
	}
	if asked != model.Unasked {
		sums[asked] += sign
	}
}

// countExcess sets how many pods too many the budgets lose by each unit, beside all the others.
func (g *pdbBudget) countExcess(units []victimUnit) {
	sums := make([]int32, len(g.used))
	charge := func(u *victimUnit, sign int32) {
		for _, task := range u.tasks {
			g.charge(sums, task, sign)
		}
	}
	for i := range units {
		charge(&units[i], 1)
	}
	all := g.violationsWith(sums)
	for i := range units {
		if units[i].cost[violations] = all; all > 0 {
			charge(&units[i], -1)
			units[i].cost[violations] -= g.violationsWith(sums)
			charge(&units[i], 1)
		}
	}
}

// left returns how many more pods a budget lets go.
func (g *pdbBudget) left(budget int) int32 {
	if budget == len(g.budgets) {
		return 0
	}
	return max(0, g.budgets[budget].Allowed-g.used[budget])
}

// violationsWith returns how many pods too many the budgets lose, with so many taken on top of what was decided.
func (g *pdbBudget) violationsWith(more []int32) int64 {
	excess := int64(0)
	for i := range more {
		if more[i] > 0 {
			excess += int64(max(0, more[i]-g.left(i)))
		}
	}
	return excess
}
