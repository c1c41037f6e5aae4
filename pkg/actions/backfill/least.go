package backfill

import (
	"slices"
	"sort"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// minCompletions returns how many must leave at least before the job can fit, by the books of the nodes alone; possible is false when
// it cannot whoever leaves.
func (p *plan) minCompletions() (least int, possible bool) {
	room := p.currentRoom()
	index := make([]int, len(p.leaving))
	for i, departure := range p.leaving {
		index[i] = -1 // its node is gone, or it gives nothing that is not being released already
		if task := departure.task; task.Status != model.Releasing || task.TerminationOverdue {
			if node := p.run.session.Snapshot.Node(task.Node); node != nil {
				index[i] = node.Index
			}
		}
	}
	ask := p.ask()
	p.run.work -= len(p.leaving)
	least = sort.Search(len(p.leaving)+1, func(departed int) bool {
		rooms := make([]model.Resources, len(room))
		for i := range room {
			rooms[i] = room[i].Clone()
		}
		for i, departure := range p.leaving[:departed] {
			if index[i] >= 0 {
				rooms[index[i]].Add(departure.task.Request)
			}
		}
		return ask.fits(rooms)
	})
	return least, least <= len(p.leaving)
}

// currentRoom returns the room on each node that is idle or being released, by model.Node.Index.
func (p *plan) currentRoom() []model.Resources {
	var rooms []model.Resources
	for _, node := range p.run.session.Snapshot.Nodes {
		room := node.Idle.Clone()
		room.Add(node.Releasing)
		room.Sub(node.Pipelined)
		room.Sub(node.Reserved)
		rooms = append(rooms, room)
	}
	return rooms
}

// minimumDemand is what a job's minimum needs, shape by shape, as if each were alone: less than what it needs in truth.
type minimumDemand struct {
	shapes []shapeDemand
	// slack is without how many of the members the minimum is reached.
	slack int64
}

type shapeDemand struct {
	request model.Resources
	// needs is how many there are, candidates are the nodes that may run them.
	needs      int64
	candidates []*model.Node
}

// ask returns what the job's minimum needs; nothing, when its minimum does not say how many members must find room.
func (p *plan) ask() minimumDemand {
	members := p.trial.Members()
	short := int(p.job.MinMember) - p.job.Count(framework.Ready.Counts)
	if short <= 0 || short > len(members) {
		return minimumDemand{}
	}
	a := minimumDemand{slack: int64(len(members) - short)}
	known := map[model.Shape]int{}
	for _, task := range members {
		i, seen := known[task.Shape]
		if !seen {
			i = len(a.shapes)
			known[task.Shape] = i
			a.shapes = append(a.shapes, shapeDemand{
				request: task.Request, candidates: slices.Clone(p.run.session.EligibleNodes(task)),
			})
		}
		a.shapes[i].needs++
	}
	return a
}

// fits tells whether there is room for enough members of each shape, were it alone.
func (a *minimumDemand) fits(rooms []model.Resources) bool {
	spare := a.slack
	for _, shape := range a.shapes {
		sum := int64(0)
		for _, node := range shape.candidates {
			if sum += copiesThatFit(rooms[node.Index], shape.request); sum >= shape.needs {
				break
			}
		}
		if spare -= max(0, shape.needs-sum); spare < 0 {
			return false
		}
	}
	return true
}

// copiesThatFit returns how many such requests the room holds.
func copiesThatFit(room, request model.Resources) int64 {
	fits := model.MaxAmount / 2
	for i, amount := range request {
		if amount > 0 {
			fits = min(fits, max(0, room.At(i)/amount))
		}
	}
	return fits
}
