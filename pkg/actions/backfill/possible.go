package backfill

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// possible is a cheap look before a try: whether, shape by shape, the nodes have room for as many members as the minimum
// needs, as if each shape were alone. fits is how many such tasks a node has room for.
func (p *plan) possible(fits func(*model.Node, *model.Task) int64) bool {
	members := p.trial.Members()
	short := int(p.job.MinMember) - p.job.Count(framework.WithPlaced.Counts)
	if short <= 0 || short > len(members) {
		return true // a minimum of roles, or of nobody: that is for a try to show
	}
	needs := map[model.Shape]int64{}
	var shapes []*model.Task
	for _, task := range members {
		if needs[task.Shape] == 0 {
			shapes = append(shapes, task)
		}
		needs[task.Shape]++
	}
	spare := int64(len(members) - short) // the minimum is reached without so many of them
	for _, task := range shapes {
		sum := int64(0)
		for _, node := range p.run.session.Candidates(task) {
			if sum += fits(node, task); sum >= needs[task.Shape] {
				break
			}
		}
		if spare -= max(0, needs[task.Shape]-sum); spare < 0 {
			return false
		}
	}
	return true
}

// free is how many such tasks fit on a node as the session stands.
func free(node *model.Node, task *model.Task) int64 {
	return min(node.Fits(task.Request, model.FutureRoom), model.MaxAmount/2)
}

// emptied returns how many such tasks fit on a node that all have left who ever will.
func (p *plan) emptied() func(*model.Node, *model.Task) int64 {
	rooms := make([]model.Resources, len(p.run.session.Snapshot.Nodes))
	for i, node := range p.run.session.Snapshot.Nodes {
		rooms[i] = node.Idle.Clone()
		rooms[i].Sub(node.Kept)
		rooms[i].Sub(node.Promised)
	}
	for _, departure := range p.leaving {
		if node := p.run.session.Snapshot.Node(departure.task.Node); node != nil {
			rooms[node.Index].Add(departure.task.Request)
		}
	}
	return func(node *model.Node, task *model.Task) int64 {
		fits := model.MaxAmount / 2
		for i, amount := range task.Request {
			if amount > 0 {
				fits = min(fits, max(0, rooms[node.Index].At(i)/amount))
			}
		}
		return fits
	}
}
