package place

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// In a ring or a mesh, members with neighbouring indexes exchange most data. Members that are alike are dealt to the nodes that
// were found for them in the order of their indexes, nodes of one domain after the other.

// choice is a member and the node that was found for it.
type choice struct {
	task *model.Task
	node *model.Node
}

// placeInRankOrder places members as the function does, and those of a job with a topology that are alike in the order of their
// indexes.
func (t *Placer) placeInRankOrder(place func() bool) bool {
	if len(t.job.Topology) == 0 {
		return place()
	}
	var found []choice
	refusal := t.session.Try(func(*engine.Statement) *model.Refusal {
		if !place() {
			return noneOfDomain
		}
		for _, task := range t.members {
			if task.Status.HasNode() {
				found = append(found, choice{task, t.session.Snapshot.Node(task.Node)})
			}
		}
		placed := slices.Clone(found)
		if t.dealByRank(found); slices.Equal(found, placed) && t.placesInOrder() {
			return nil
		}
		return noneOfDomain // undo: only the nodes count
	})
	if refusal == nil || found == nil {
		return refusal == nil
	}
	dealt := t.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, one := range found {
			if t.ask.BestOf(one.task, []int{one.node.Index}) == nil {
				return noneOfDomain
			}
			if refusal := statement.Put(t.ask, one.task, one.node); refusal != nil {
				return refusal
			}
		}
		return t.session.JobReady(t.job, t.readiness())
	})
	return dealt == nil || place()
}

// placesInOrder reports whether slices are placed in the order of the members, which is that of the decisions.
func (t *Placer) placesInOrder() bool {
	var tasks []*model.Task
	for i := range t.sliced {
		if !t.sliced[i].regular {
			return false
		}
		tasks = append(tasks, t.sliced[i].tasks...)
	}
	return slices.Equal(tasks, t.members[:len(tasks)])
}

// dealByRank deals the nodes that members which are alike have in the domains of one choice of slices. Members with volumes or
// claims of their own keep theirs.
func (t *Placer) dealByRank(found []choice) {
	type group struct {
		shape              model.Shape
		constraints, cells string
	}
	groups, entries := map[group][]int{}, map[string][]sliceEntry{} // by role, on which they depend alone
	for i, one := range found {
		if hasOwnStorage(one.task) {
			continue
		}
		covering, known := entries[one.task.Role]
		if !known {
			covering = t.entriesOf(one.task)
			entries[one.task.Role] = covering
		}
		of := group{one.task.Shape, t.constraintsOf(one.task), cellsOf(covering, one.node)}
		groups[of] = append(groups[of], i)
	}
	levels := t.session.LevelsFor(t.job)
	for _, at := range groups {
		members, nodes := make([]*model.Task, len(at)), make([]*model.Node, len(at))
		for i, position := range at {
			members[i], nodes[i] = found[position].task, found[position].node
		}
		model.SortByRank(members)
		slices.SortFunc(nodes, func(a, b *model.Node) int { return compareByTree(levels, a, b) })
		for i, position := range at {
			found[position] = choice{members[i], nodes[i]}
		}
	}
}

// constraintsOf returns what decides beside its shape where a member may go: not its role, but the entries that cover it, and
// what it and others say of each other.
func (t *Placer) constraintsOf(task *model.Task) string {
	text := make([]byte, 0, 64)
	for i := range t.job.Topology {
		covered := byte('0')
		if t.job.Topology[i].Covers(task) {
			covered = '1'
		}
		text = append(text, covered)
	}
	return string(t.kinds.encode(text, task.Pod))
}

// cellsOf returns the numbers of the domains that the entries with slices of a member have for its node.
func cellsOf(entries []sliceEntry, node *model.Node) string {
	var cells []byte
	for _, entry := range entries {
		cells = binary.AppendVarint(cells, int64(entry.domains.Of(node)))
	}
	return string(cells)
}

// compareByTree orders nodes by their domains, and by the natural order of their names.
func compareByTree(levels []*engine.Domains, a, b *model.Node) int {
	for _, level := range levels {
		if order := cmp.Compare(uint(level.Of(a)), uint(level.Of(b))); order != 0 { // nodes in no domain come last
			return order
		}
	}
	return model.CompareNatural(a.Name, b.Name)
}
