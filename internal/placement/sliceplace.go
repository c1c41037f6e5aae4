package placement

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file places members in their slices: those of the minimum together, and those beyond it slice by slice.

// placeSliced tries to start with the slices in domains of their own, within those that were chosen.
func (t *Placer) placeSliced(chosen []topologyDomain, room model.CapacityKind) bool {
	all := slices.Clone(t.sliced)
	try := func() bool {
		return t.session.Try(func(statement *framework.Statement) *model.Refusal {
			for i := range all {
				if !t.placeSlices(statement, &all[i], chosen, room) {
					return noneOfDomain
				}
			}
			return t.placeInOrder(statement, filterTasks(t.members, isPending), room, chosen)
		}) == nil
	}
	if try() {
		return true
	}
	if len(all) < 2 {
		return false
	}
	t.incomplete = true
	slices.Reverse(all)
	return try()
}

// mayStartWithOthers reports whether there are members beyond the minimum that may have a place where those of the minimum have
// none, since they differ.
func (t *Placer) mayStartWithOthers(room model.CapacityKind) bool {
	first := t.members[0]
	inOther := func(task *model.Task) bool {
		return len(t.job.Roles) > 0 && (task.Role != first.Role || t.slicesKey(task) != t.slicesKey(first))
	}
	return len(t.members) > len(t.minimum(room)) &&
		(slices.ContainsFunc(t.members, inOther) || !sameShape(t.members) || slices.ContainsFunc(t.members, func(task *model.Task) bool { return task.Invalid != nil }))
}

// placeOtherSlices tries to start with whichever slices have a domain, in their order, and the members that are in none.
func (t *Placer) placeOtherSlices(chosen []topologyDomain, room model.CapacityKind) bool {
	if !t.mayStartWithOthers(room) {
		return false
	}
	t.incomplete = true
	type slice struct {
		entry  *model.TopologyConstraint
		number int
	}
	var single []*model.Task
	var parts []slice
	members := map[slice][]*model.Task{}
	for _, task := range t.members {
		entries := t.entriesOf(task)
		if len(entries) == 0 {
			single = append(single, task)
			continue
		}
		smallest := entries[len(entries)-1].shared
		of := slice{smallest, t.slice(smallest, task)}
		if members[of] == nil {
			parts = append(parts, of)
		}
		members[of] = append(members[of], task)
	}
	return t.session.Try(func(statement *framework.Statement) *model.Refusal {
		refusal := t.placeInOrder(statement, single, room, chosen)
		for _, of := range parts {
			if refusal == nil {
				return nil
			}
			t.placeOneByOne(statement, [][]*model.Task{members[of]}, chosen, room)
			refusal = t.session.JobReady(t.job, readinessFor(room))
		}
		return refusal
	}) == nil
}

func isPending(task *model.Task) bool { return task.Status == model.Pending }

// placeSlices places members in their slices.
func (t *Placer) placeSlices(statement *framework.Statement, m *slicedMembers, chosen []topologyDomain, room model.CapacityKind) bool {
	if m.regular {
		cells := newCell(m.levels(t.session.Snapshot.Nodes), t.fitsOf(m.tasks, room), t.confined(m.tasks, chosen))
		if cells.holds < int64(len(m.tasks)) {
			return false
		}
		left := m.tasks
		for _, share := range cells.deal(int64(len(m.tasks))) {
			if !t.placeAll(statement, left[:share.members], share.nodes, room) {
				return false
			}
			left = left[share.members:]
		}
		return true
	}
	t.incomplete = t.incomplete || !sameShape(m.tasks)
	return t.placeOneByOne(statement, t.apart(m), chosen, room)
}

// placeAll places each of the members on one of the nodes.
func (t *Placer) placeAll(statement *framework.Statement, members []*model.Task, nodes []int, room model.CapacityKind) bool {
	for _, task := range members {
		t.charge(placeFunc + len(nodes)/domainDiscount)
		if task.Invalid != nil || t.session.OverLimit(task, room) != nil {
			return false
		}
		node := t.session.SelectAmong(task, room, nodes)
		if node == nil || take(statement, task, node, room) != nil {
			return false
		}
	}
	return true
}

// StartTogether returns those of the waiting members that a member starts with: those of its slice while none of that has a node,
// else the member alone.
func StartTogether(session *framework.Session, job *model.Job, task *model.Task, waiting []*model.Task) []*model.Task {
	alone := []*model.Task{task}
	if slicing(job) == nil {
		return alone
	}
	t := &Placer{session: session, job: job}
	entries := t.entriesOf(task)
	if len(entries) == 0 {
		return alone
	}
	smallest := entries[len(entries)-1].shared
	slice := t.slice(smallest, task)
	if session.SharedDomain(job, smallest, slice) >= 0 {
		return alone
	}
	return filterTasks(waiting, func(other *model.Task) bool {
		return smallest.Covers(other) && t.slice(smallest, other) == slice
	})
}

// PlaceSlice places the members of a slice of which none has a node, all of them or none.
func (t *Placer) PlaceSlice(statement *framework.Statement, members []*model.Task) *model.Refusal {
	t.tries, t.budget = 0, searchBudget
	_, _, settled := t.ties(model.Idle)
	if t.placeOneByOne(statement, [][]*model.Task{members}, settled, model.Idle) {
		return nil
	}
	entries := t.entriesOf(members[0])
	smallest := entries[len(entries)-1].shared
	return &model.Refusal{Code: model.NoDomainFits, Evictable: true, Detail: fmt.Sprintf(
		"slice %d: no %s has capacity for its %d members", t.slice(smallest, members[0]), smallest.Level, len(members))}
}

// slicesFitWithin reports whether slices that are the whole minimum fit into the given amounts, in one domain of an entry for all
// members; known is false where numbers do not decide.
func (t *Placer) slicesFitWithin(rooms map[string]model.Resources) (fits, known bool) {
	sliced, minimum := t.slicedOf(model.FutureIdle), t.minimum(model.FutureIdle)
	required, _, _ := t.ties(model.FutureIdle)
	if len(sliced) != 1 || !sliced[0].regular || len(sliced[0].tasks) != len(minimum) || len(required) > 1 {
		return false, false
	}
	m := &sliced[0]
	each := slices.Clone(t.fitsOf(m.tasks, model.FutureIdle))
	var nodes []int
	for _, node := range t.session.Snapshot.Nodes {
		room, ok := rooms[node.Name]
		if !ok {
			continue
		}
		nodes = append(nodes, node.Index)
		each[node.Index] = int32(min(int64(each[node.Index]), room.Copies(m.tasks[0].Request)))
	}
	around := [][]int{nodes}
	if len(required) == 1 {
		level := t.session.Domains(required[0].shared.Level)
		around = divided(func(node int) int { return level.Of(t.session.Snapshot.Nodes[node]) }, each, nodes)
	}
	return slices.ContainsFunc(around, func(nodes []int) bool {
		return newCell(m.levels(t.session.Snapshot.Nodes), each, nodes).holds >= int64(len(minimum))
	}), true
}

// apart returns the members of each of the smallest slices, the largest first.
func (t *Placer) apart(m *slicedMembers) (parts [][]*model.Task) {
	smallest := m.entries[len(m.entries)-1].shared
	for i, task := range m.tasks {
		if i == 0 || t.slice(smallest, task) != t.slice(smallest, m.tasks[i-1]) {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], task)
	}
	slices.SortStableFunc(parts, func(a, b []*model.Task) int { return cmp.Compare(len(b), len(a)) })
	return parts
}

// placeOneByOne places slices one after the other, each in the domain with the least capacity that suffices, and takes a choice
// back where a later slice finds none.
func (t *Placer) placeOneByOne(statement *framework.Statement, parts [][]*model.Task, chosen []topologyDomain, room model.CapacityKind) bool {
	if len(parts) == 0 {
		return true
	}
	for _, nodes := range t.tightest(parts[0], chosen, room) {
		if t.exhausted() {
			t.incomplete = true
			return false
		}
		t.tries++
		refusal := t.session.Try(func(inner *framework.Statement) *model.Refusal {
			if !t.placeAll(inner, parts[0], nodes, room) || !t.placeOneByOne(inner, parts[1:], chosen, room) {
				return noneOfDomain
			}
			return nil
		})
		if refusal == nil {
			return true
		}
	}
	return false
}

// tightest returns the nodes of the domains that have capacity for the members of a slice, shape by shape, those with the least
// first. Members that filters keep in a domain have that alone.
func (t *Placer) tightest(members []*model.Task, chosen []topologyDomain, room model.CapacityKind) (domains [][]int) {
	entries := t.entriesOf(members[0])
	level := entries[len(entries)-1].domains
	holds := map[int]int64{}
	byDomain := divided(func(node int) int { return level.Of(t.session.Snapshot.Nodes[node]) }, t.anyFits(members, room), t.confined(members, chosen))
	for _, nodes := range byDomain {
		suffices := true
		for _, alike := range byShape(members) {
			fits, sum := t.fitsOf(alike, room), int64(0)
			for _, node := range nodes {
				sum += int64(fits[node])
			}
			suffices = suffices && sum >= int64(len(alike))
			holds[nodes[0]] += sum
		}
		if suffices {
			domains = append(domains, nodes)
		}
	}
	slices.SortStableFunc(domains, func(a, b []int) int { return cmp.Compare(holds[a[0]], holds[b[0]]) })
	return domains
}

func byShape(members []*model.Task) (alike [][]*model.Task) {
	for _, task := range members {
		i := slices.IndexFunc(alike, func(these []*model.Task) bool { return these[0].Shape == task.Shape })
		if i < 0 {
			i = len(alike)
			alike = append(alike, nil)
		}
		alike[i] = append(alike[i], task)
	}
	return alike
}

// anyFits returns on which nodes any of the members fits.
func (t *Placer) anyFits(members []*model.Task, room model.CapacityKind) []int32 {
	any := make([]int32, len(t.session.Snapshot.Nodes))
	for _, alike := range byShape(members) {
		for node, fits := range t.fitsOf(alike, room) {
			any[node] = max(any[node], fits)
		}
	}
	return any
}

// fitsOf returns how many members of one shape fit on each node, by its index, as the session stands. It must not be changed.
func (t *Placer) fitsOf(members []*model.Task, room model.CapacityKind) []int32 {
	fits, _ := t.fits(t.kinds.first(members), room)
	return fits
}

// confined returns the nodes of the domains that were chosen for any of the members.
func (t *Placer) confined(members []*model.Task, chosen []topologyDomain) []int {
	return t.insideFor(t.everywhere(), t.kinds.first(members), chosen)
}
