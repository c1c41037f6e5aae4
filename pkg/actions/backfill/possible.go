package backfill

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// feasibleOnEmptyCluster is a cheap look before anything is planned: whether, shape by shape, there is room for as many members as the minimum
// needs when all pods of our jobs are gone, as if each shape were alone and nothing kept for anybody.
func (p *plan) feasibleOnEmptyCluster() bool {
	members := p.trial.Members()
	p.run.work -= 1 + len(members)
	short := int(p.job.MinMember) - p.job.Count(framework.Ready.Counts)
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
		if spare -= max(0, needs[task.Shape]-p.run.maxCopies(task)); spare < 0 {
			return false
		}
	}
	return true
}

// maxCopies returns for how many such tasks there is room when all pods of our jobs are gone: no fewer than any job finds. It is
// found once for all jobs of an execution, so that many that are too big cost little.
func (r *run) maxCopies(task *model.Task) (places int64) {
	if known, ok := r.places[task.Shape]; ok {
		return known
	}
	if r.vacated == nil {
		r.emptyClusterRoom()
	}
	for _, node := range r.session.EligibleNodes(task) {
		if places += copiesInto(r.vacated[node.Index], task.Request); places >= model.MaxAmount/2 {
			break
		}
	}
	r.work -= len(r.vacated)
	r.places[task.Shape] = places
	return places
}

// emptyClusterRoom adds up the room of each node: what is idle, what our jobs have, and what others are just leaving.
func (r *run) emptyClusterRoom() {
	r.vacated = make([]model.Resources, len(r.session.Snapshot.Nodes))
	for i, node := range r.session.Snapshot.Nodes {
		r.vacated[i] = node.Idle.Clone()
		for _, leaving := range node.Tasks {
			if leaves := leaving.Status == model.Releasing && !leaving.TerminationOverdue; leaves || isOnNode(leaving) && leaving.Job != (model.JobKey{}) {
				r.vacated[i].Add(leaving.Request)
			}
		}
		r.work -= 1 + len(node.Tasks)
	}
}

// isOnNode tells whether a task is on its node, rather than promised room there that others have still.
func isOnNode(task *model.Task) bool { return task.Status.HasNode() && task.Status != model.Pipelined }

// copiesInto returns how many such requests there is room for.
func copiesInto(room, request model.Resources) int64 {
	fits := model.MaxAmount / 2
	for i, amount := range request {
		if amount > 0 {
			fits = min(fits, max(0, room.At(i)/amount))
		}
	}
	return fits
}
