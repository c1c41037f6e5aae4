package start

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// exactMembers is up to how many members of different shapes every combination of nodes is tried.
	exactMembers = 8
	// exactBudget bounds that search, in nodes looked at. Six nodes and eight members stay below it unless almost
	// everything fits almost everywhere; past it a gang may wait although it could start.
	exactBudget = 500_000
	// Budget bounds it for all jobs of one action in one cycle together.
	Budget = 3_000_000
)

// startExact tries every combination of members and nodes, within the budget; of a gang with many members only those that
// make up the minimum.
func (t *Trial) startExact(room model.Room) bool {
	short := max(1, int(t.job.MinMember)-t.job.Count(standingFor(room).Counts))
	chosen := t.members
	if len(chosen) > exactMembers {
		chosen = chosen[:min(short, len(chosen))]
	}
	if len(chosen) < 2 || len(chosen) > exactMembers || allAlike(chosen) || !t.enoughFit(chosen, short, room) {
		return false
	}
	budget := min(exactBudget, *t.overall)
	t.budget, t.symmetric = budget, !slices.ContainsFunc(chosen, func(task *model.Task) bool { return !t.session.Plain(task) })
	refusal := t.session.Try(func(statement *framework.Statement) *model.Refusal {
		return t.combine(statement, chosen, 0, short, room)
	})
	*t.overall -= budget - max(0, t.budget)
	t.cut = t.cut || refusal != nil && t.budget <= 0 && budget < exactBudget
	return refusal == nil
}

func sameShape(tasks []*model.Task) bool {
	return !slices.ContainsFunc(tasks, func(task *model.Task) bool { return task.Shape != tasks[0].Shape })
}

// allAlike tells whether the members ask the same of nodes and of other pods, so that no order of them is better than
// another.
func allAlike(tasks []*model.Task) bool {
	first := &tasks[0].Pod.Spec
	return sameShape(tasks) && !slices.ContainsFunc(tasks[1:], func(task *model.Task) bool {
		spec := &task.Pod.Spec
		return !equality.Semantic.DeepEqual(first.Affinity, spec.Affinity) ||
			!equality.Semantic.DeepEqual(first.TopologySpreadConstraints, spec.TopologySpreadConstraints) ||
			!equality.Semantic.DeepEqual(first.Volumes, spec.Volumes) || !slices.Equal(hostPorts(first), hostPorts(spec))
	})
}

func hostPorts(spec *corev1.PodSpec) []corev1.ContainerPort {
	var ports []corev1.ContainerPort
	for i := range spec.Containers {
		for _, port := range spec.Containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, port)
			}
		}
	}
	return ports
}

// enoughFit tells whether enough members would find room if each shape were alone: a cheap look that spares the search in
// most clusters that are simply full. A member of whom more than room decides gets the benefit of the doubt.
func (t *Trial) enoughFit(chosen []*model.Task, short int, room model.Room) bool {
	places := map[model.Shape]int64{}
	fit := 0
	for _, task := range chosen {
		if !t.session.Plain(task) {
			fit++
			continue
		}
		if _, known := places[task.Shape]; !known {
			places[task.Shape] = 0
			for _, node := range t.session.Feasible(task, room) {
				places[task.Shape] += node.Fits(task.Request, room)
			}
		}
		if places[task.Shape] > 0 {
			places[task.Shape]--
			fit++
		}
	}
	return fit >= short
}

// combine places chosen[i] on each feasible node in turn, or not at all, and the others behind it, until every gate agrees;
// at least short of them must get a place.
func (t *Trial) combine(
	statement *framework.Statement, chosen []*model.Task, i, short int, room model.Room,
) *model.Refusal {
	gate := t.session.GateJob(t.job, standingFor(room))
	if gate == nil || i == len(chosen) || len(chosen)-i < short || t.budget <= 0 {
		return gate
	}
	task := chosen[i]
	var nodes []*model.Node
	if task.Refused == nil {
		t.budget -= max(1, len(t.session.Candidates(task))) * price(task)
		nodes = t.session.Feasible(task, room)
	}
	for _, node := range nodes {
		if i > 0 && t.tried(chosen[i-1], task, node) {
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
func (t *Trial) tried(before, task *model.Task, node *model.Node) bool {
	equal := t.symmetric && before.Refused == nil && before.Shape == task.Shape && before.Role == task.Role
	return equal && (node.Name < before.Node || before.Node == "")
}
