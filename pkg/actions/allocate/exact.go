package allocate

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// exactMembers is up to how many members of different shapes every combination of nodes is tried.
	exactMembers = 8
	// exactBudget bounds that search, in nodes looked at. Six nodes and eight members stay below it unless almost
	// everything fits almost everywhere; past it a gang may wait although it could start.
	exactBudget = 500_000
)

// startExact tries every combination of members and nodes, within the budget; of a gang with many members only those that
// make up the minimum.
func (t *trial) startExact(room model.Room) bool {
	short := max(1, int(t.job.MinMember)-t.job.Count(standingFor(room).Counts))
	chosen := t.members
	if len(chosen) > exactMembers {
		chosen = chosen[:min(short, len(chosen))]
	}
	if len(chosen) < 2 || len(chosen) > exactMembers || sameShape(chosen) {
		return false
	}
	if !t.enoughFit(chosen, short, room) {
		return false
	}
	t.budget = exactBudget
	return t.session.Try(func(statement *framework.Statement) *model.Refusal {
		return t.combine(statement, chosen, 0, short, room)
	}) == nil
}

func sameShape(tasks []*model.Task) bool {
	return !slices.ContainsFunc(tasks, func(task *model.Task) bool { return task.Shape != tasks[0].Shape })
}

// enoughFit tells whether enough members would find room if each shape were alone: a cheap look that spares the search in
// most clusters that are simply full.
func (t *trial) enoughFit(chosen []*model.Task, short int, room model.Room) bool {
	var fit int64
	for i, task := range chosen {
		same := func(other *model.Task) bool { return other.Shape == task.Shape }
		if slices.IndexFunc(chosen, same) < i {
			continue
		}
		var count, places int64
		for _, other := range chosen {
			if same(other) {
				count++
			}
		}
		for _, node := range t.session.Feasible(task, room) {
			places += node.Fits(task.Request, room)
		}
		if drawsSiblings(task) {
			places = count
		}
		fit += min(count, places)
	}
	return fit >= int64(short)
}

// combine places chosen[i] on each feasible node in turn, or not at all, and the others behind it, until every gate agrees;
// at least short of them must get a place.
func (t *trial) combine(
	statement *framework.Statement, chosen []*model.Task, i, short int, room model.Room,
) *model.Refusal {
	gate := t.session.GateJob(t.job, standingFor(room))
	if gate == nil || i == len(chosen) || len(chosen)-i < short || t.budget <= 0 {
		return gate
	}
	task := chosen[i]
	var nodes []*model.Node
	if task.Refused == nil {
		nodes = t.session.Feasible(task, room)
		t.budget -= max(1, len(nodes)) * price(task)
	}
	for _, node := range nodes {
		if i > 0 && tried(chosen[i-1], task, node) {
			continue
		}
		refusal := t.session.Try(func(inner *framework.Statement) *model.Refusal {
			if refusal := take(inner, task, node, room); refusal != nil {
				return refusal
			}
			return t.combine(inner, chosen, i+1, short-1, room)
		})
		if refusal == nil {
			return nil
		}
	}
	return t.combine(statement, chosen, i+1, short, room)
}

// price is what a look at a node costs for the task: one, or more where every look begins with all pods of the cluster.
func price(task *model.Task) int {
	if drawsSiblings(task) {
		return 20
	}
	return 1
}

// tried tells whether the node would make the same start again: of equal members the later one never goes to an earlier
// node, nor anywhere when the earlier one was left out.
func tried(before, task *model.Task, node *model.Node) bool {
	equal := before.Shape == task.Shape && before.Role == task.Role && !drawsSiblings(task)
	return equal && node.Name < before.Node || equal && before.Node == ""
}
