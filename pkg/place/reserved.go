package place

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds out whether a job would still start on what is reserved for it.

// FitsWithin reports whether the job would start on idle or releasing capacity, if it took on each node no more than the
// given amount, by name of the node. A node of a reservation may have lost the label of a level that members share, until the
// reservation ends. It changes nothing in the session. The Placer's question is on future capacity.
func (t *Placer) FitsWithin(rooms map[string]model.Resources) bool {
	if fits, known := t.slicesFitWithin(rooms); fits || !known && (t.fitsWithin(rooms) || t.partsFitWithin(rooms)) {
		return true
	}
	return len(t.job.Topology) > 0 && t.overlooking().fitsWithin(rooms)
}

func (t *Placer) fitsWithin(rooms map[string]model.Resources) bool {
	left := map[string]model.Resources{}
	for name, room := range rooms {
		left[name] = room.Clone()
	}
	fits := false
	t.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, task := range t.members {
			if fits = t.session.JobReady(t.job, framework.Pipelined) == nil; fits {
				break
			}
			within := func(node *model.Node) bool { return covers(left[node.Name], task.Request) }
			node := t.ask.Best(task, within)
			if node == nil || task.Invalid != nil || statement.Put(t.ask, task, node) != nil {
				continue
			}
			room := left[node.Name]
			room.Sub(task.Request)
			left[node.Name] = room
		}
		fits = t.session.JobReady(t.job, framework.Pipelined) == nil
		return &model.Refusal{} // undo: only the result counts
	})
	return fits
}

func covers(room, request model.Resources) bool { return len(room) > 0 && room.Copies(request) > 0 }

// fitsInside returns how many members of one shape fit on each node, no more than these amounts hold, and the nodes of these.
func (t *Placer) fitsInside(rooms map[string]model.Resources, members []*model.Task) (each []int32, nodes []int) {
	fits := t.fitsOf(members)
	each = make([]int32, len(fits))
	for _, node := range t.session.Snapshot.Nodes {
		if room, ok := rooms[node.Name]; ok {
			nodes = append(nodes, node.Index)
			each[node.Index] = int32(min(int64(fits[node.Index]), room.Copies(members[0].Request)))
		}
	}
	return each, nodes
}

// partsFitWithin reports whether numbers find a domain for each part of the minimum within the given amounts: members that are
// placed one after the other may take the domain of others.
func (t *Placer) partsFitWithin(rooms map[string]model.Resources) bool {
	members := t.minimum()
	if len(t.job.Topology) == 0 || !areAlike(members) {
		return false
	}
	each, _ := t.fitsInside(rooms, members)
	t.budget = searchBudget
	d := t.newDivision(members, each)
	return d != nil && d.found
}

// slicesFitWithin reports whether slices that are the whole minimum fit into the given amounts, in one domain of an entry for all
// members; known is false where numbers do not decide.
func (t *Placer) slicesFitWithin(rooms map[string]model.Resources) (fits, known bool) {
	sliced, minimum := t.slicedOf(t.minimum()), t.minimum()
	required, _, _ := t.ties()
	if len(sliced) != 1 || !sliced[0].regular || len(sliced[0].tasks) != len(minimum) || len(required) > 1 {
		return false, false
	}
	m := &sliced[0]
	each, nodes := t.fitsInside(rooms, m.tasks)
	around := [][]int{nodes}
	if len(required) == 1 {
		level := t.session.Domains(required[0].shared.Level)
		around = divided(level.At, each, nodes)
	}
	return slices.ContainsFunc(around, func(nodes []int) bool {
		return newCell(m.levels(), each, nodes).holds >= int64(len(minimum))
	}), true
}
