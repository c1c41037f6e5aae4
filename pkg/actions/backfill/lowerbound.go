package backfill

import (
	"sort"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what the accounting of the nodes alone says about a job's minimum: a bound that costs little.

// demand is what a job's minimum needs, shape by shape, as if each were alone: less than what it needs in truth.
type demand struct {
	shapes []shapeDemand
	// spare is without how many of the members the minimum is reached.
	spare int64
}

type shapeDemand struct {
	request model.Resources
	// members is how many there are, candidates are the nodes that may run them.
	members    int64
	candidates []*model.Node
}

// demand returns what the job's minimum needs; nothing, when its minimum does not say how many members must find capacity.
func (p *plan) demand() (d demand) {
	members := p.trial.Members()
	p.run.work -= 1 + len(members)
	short := int(p.job.MinMember) - p.job.Count(framework.Ready.Counts)
	if short <= 0 || short > len(members) {
		return d
	}
	d.spare = int64(len(members) - short)
	known := map[model.Shape]int{}
	for _, task := range members {
		i, seen := known[task.Shape]
		if !seen {
			i = len(d.shapes)
			known[task.Shape] = i
			d.shapes = append(d.shapes, shapeDemand{request: task.Request, candidates: p.run.session.EligibleNodes(task)})
		}
		d.shapes[i].members++
	}
	return d
}

// lacking returns how many members of the minimum find no place at least, were each shape alone in these rooms, which are by
// model.Node.Index; not more than zero when all may find one.
func (d *demand) lacking(rooms []model.Resources) (lacking int64) {
	for _, shape := range d.shapes {
		places := int64(0)
		for _, node := range shape.candidates {
			if places += rooms[node.Index].Copies(shape.request); places >= shape.members {
				break
			}
		}
		lacking += max(0, shape.members-places)
	}
	return lacking - d.spare
}

// minCompletions returns how many of the tasks that end must do so at least before the job can fit; more than there are when it
// cannot.
func (p *plan) minCompletions(d demand) int {
	snapshot := p.run.session.Snapshot
	index := make([]int, len(p.leaving))
	for i, departure := range p.leaving {
		index[i] = -1 // its node is gone, or its capacity is being released already
		if task := departure.task; task.Status != model.Releasing || task.TerminationOverdue {
			if node := snapshot.Node(task.Node); node != nil {
				index[i] = node.Index
			}
		}
	}
	p.run.work -= len(p.leaving)
	return sort.Search(len(p.leaving)+1, func(departed int) bool {
		rooms := make([]model.Resources, len(snapshot.Nodes))
		for i, node := range snapshot.Nodes {
			rooms[i] = p.ask.Free(node).All(snapshot.Dimensions.Len())
		}
		for i, departure := range p.leaving[:departed] {
			if index[i] >= 0 {
				rooms[index[i]].Add(snapshot.Nodes[index[i]].Charge(departure.task))
			}
		}
		return d.lacking(rooms) <= 0
	})
}

// emptied returns the capacity of each node when all pods of our jobs are gone, and what others are releasing: what it offers
// less what stays, held or not. It is more than any job finds.
func (r *run) emptied() []model.Resources {
	if r.vacated != nil {
		return r.vacated
	}
	r.vacated = make([]model.Resources, len(r.session.Snapshot.Nodes))
	for i, node := range r.session.Snapshot.Nodes {
		r.vacated[i] = node.Allocatable().Clone()
		for _, task := range node.Tasks {
			ours := task.Job != model.JobKey{}
			if task.Status.Occupies() && !ours && !task.ReleasesResources() {
				r.vacated[i].Sub(node.Charge(task))
			}
		}
		r.work -= 1 + len(node.Tasks)
	}
	return r.vacated
}
