package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file places members in their slices: those of the minimum together, and those beyond it slice by slice.

// placeSliced tries to start with the slices in domains of their own, within those that were chosen: with all members of the
// slices that the minimum has some of, so that the others find places beside these, and else with the minimum.
func (t *Placer) placeSliced(chosen regions) bool {
	try := func(all []slicedMembers) bool {
		return t.session.Try(func(statement *engine.Statement) *model.Refusal {
			for i := range all {
				if !t.placeSlices(statement, &all[i], chosen) {
					return noneOfDomain
				}
			}
			return t.placeInOrder(statement, filterTasks(t.members, isPending), chosen)
		}) == nil
	}
	if whole := t.wholeSlices(); whole != nil && try(whole) || try(t.sliced) {
		return true
	}
	if len(t.sliced) < 2 {
		return false
	}
	t.incomplete = true
	reversed := slices.Clone(t.sliced)
	slices.Reverse(reversed)
	return try(reversed)
}

// sliceNumber is one slice of an entry.
type sliceNumber struct {
	entry  *model.TopologyConstraint
	number int
}

// wholeSlices returns the members of the minimum that are in slices, with those that are in a slice with them; nil when there are
// no more, and on capacity that is being released.
func (t *Placer) wholeSlices() []slicedMembers {
	members := slices.Clip(t.minimum())
	if t.ask.Kind != model.Idle || len(members) == len(t.members) {
		return nil
	}
	begun := map[sliceNumber]bool{}
	for _, task := range members {
		for _, entry := range t.entriesOf(task) {
			begun[sliceNumber{entry.shared, t.slice(entry.shared, task)}] = true
		}
	}
	more := filterTasks(t.members[len(members):], func(task *model.Task) bool {
		return slices.ContainsFunc(t.entriesOf(task), func(entry sliceEntry) bool {
			return begun[sliceNumber{entry.shared, t.slice(entry.shared, task)}]
		})
	})
	if len(more) == 0 {
		return nil
	}
	return t.slicedOf(append(members, more...))
}

// mayStartWithOthers reports whether there are members beyond the minimum that may have a place where those of the minimum have
// none, since they differ.
func (t *Placer) mayStartWithOthers() bool {
	first := t.members[0]
	inOther := func(task *model.Task) bool {
		return len(t.job.Roles) > 0 && (task.Role != first.Role || t.slicesKey(task) != t.slicesKey(first))
	}
	return len(t.members) > len(t.minimum()) &&
		(slices.ContainsFunc(t.members, inOther) || !sameShape(t.members) || slices.ContainsFunc(t.members, func(task *model.Task) bool { return task.Invalid != nil }))
}

// placeOtherSlices tries to start with those slices that have a domain, in their order, and the members that are in none.
func (t *Placer) placeOtherSlices(chosen regions) bool {
	if !t.mayStartWithOthers() {
		return false
	}
	t.incomplete = true
	var single []*model.Task
	var parts []sliceNumber
	members := map[sliceNumber][]*model.Task{}
	for _, task := range t.members {
		entries := t.entriesOf(task)
		if len(entries) == 0 {
			single = append(single, task)
			continue
		}
		smallest := entries[len(entries)-1].shared
		of := sliceNumber{smallest, t.slice(smallest, task)}
		if members[of] == nil {
			parts = append(parts, of)
		}
		members[of] = append(members[of], task)
	}
	return t.session.Try(func(statement *engine.Statement) *model.Refusal {
		refusal := t.placeInOrder(statement, single, chosen)
		for _, of := range parts {
			if refusal == nil {
				return nil
			}
			t.placeOneByOne(statement, [][]*model.Task{members[of]}, chosen)
			refusal = t.session.JobReady(t.job, t.readiness())
		}
		return refusal
	}) == nil
}

func isPending(task *model.Task) bool { return task.Status == model.Pending }

// placeSlices places members in their slices: where numbers say, and if filters keep them off there one slice after the other.
func (t *Placer) placeSlices(statement *engine.Statement, m *slicedMembers, chosen regions) bool {
	if m.regular {
		cells := newCell(m.levels(), t.fitsOf(m.tasks), t.confined(m.tasks, chosen))
		if cells.holds < int64(len(m.tasks)) {
			return false
		}
		dealt := t.session.Try(func(inner *engine.Statement) *model.Refusal {
			left := m.tasks
			for _, share := range cells.deal(int64(len(m.tasks))) {
				if !t.placeAll(inner, left[:share.members], share.nodes) {
					return noneOfDomain
				}
				left = left[share.members:]
			}
			return nil
		})
		if dealt == nil {
			return true
		}
	}
	t.incomplete = t.incomplete || m.regular || !sameShape(m.tasks)
	return t.placeOneByOne(statement, t.apart(m), chosen)
}

// placeAll places each of the members on one of the nodes.
func (t *Placer) placeAll(statement *engine.Statement, members []*model.Task, nodes []int) bool {
	for _, task := range members {
		t.charge(placingCost + len(nodes)/domainDiscount)
		if task.Invalid != nil || t.ask.OverLimit(task) != nil {
			return false
		}
		node := t.ask.BestOf(task, nodes)
		if node == nil || statement.Put(t.ask, task, node) != nil {
			return false
		}
	}
	return true
}

// StartTogether returns those of the waiting members that a member starts with: those of the largest of its slices of which none
// has a node, in whole ones of the smallest, else the member alone. The refusal says that the smallest slice of the member is not
// whole: some of it are yet to be made, and one that started before them might choose a domain in which they have no place.
func StartTogether(ask engine.Ask, task *model.Task, waiting []*model.Task) (together []*model.Task, lacks *model.Refusal) {
	alone, job := []*model.Task{task}, ask.Job
	if slicing(job) == nil {
		return alone, nil
	}
	t := placerFor(ask)
	exist := map[sliceNumber]int{} // of those that were asked for, how many members have a place, have succeeded or wait for a place
	missing := func(entry *model.TopologyConstraint, of *model.Task) int {
		slice := sliceNumber{entry, t.slice(entry, of)}
		if exist[slice] == 0 && ask.SharedDomain(entry, slice.number) >= 0 {
			exist[slice] = int(entry.SliceSize)
		} else if exist[slice] == 0 {
			exist[slice] = job.Count(func(other *model.Task) bool {
				return other.Exists() && entry.Covers(other) && t.slice(entry, other) == slice.number
			})
		}
		return int(entry.SliceSize) - exist[slice]
	}
	entries := t.entriesOf(task)
	for i, entry := range entries {
		slice := t.slice(entry.shared, task)
		if ask.SharedDomain(entry.shared, slice) >= 0 {
			continue
		}
		smallest := entries[len(entries)-1].shared
		together := filterTasks(waiting, func(other *model.Task) bool {
			return entry.shared.Covers(other) && t.slice(entry.shared, other) == slice
		})
		differs := func(other *model.Task) bool { return !sameEntries(t.entriesOf(other), entries) }
		if i < len(entries)-1 && slices.ContainsFunc(together, differs) {
			continue
		}
		if n := missing(smallest, task); n > 0 {
			return filterTasks(together, func(other *model.Task) bool { return t.slice(smallest, other) == t.slice(smallest, task) }), &model.Refusal{
				Code:   model.NotEnoughMembers,
				Detail: fmt.Sprintf("slice %d needs %d, %d exist", t.slice(smallest, task), smallest.SliceSize, int(smallest.SliceSize)-n),
			}
		}
		return filterTasks(together, func(other *model.Task) bool { return missing(smallest, other) <= 0 }), nil
	}
	return alone, nil
}

// HasItsDomains reports whether other members stand in each domain that a task has to share with some.
func HasItsDomains(ask engine.Ask, task *model.Task) bool {
	t := placerFor(ask)
	for i := range ask.Job.Topology {
		shared := &ask.Job.Topology[i]
		if !shared.Preferred && shared.Covers(task) && ask.SharedDomain(shared, t.slice(shared, task)) < 0 {
			return false
		}
	}
	return true
}

// PlaceSlice places the members that StartTogether returns, all of them or none.
func (t *Placer) PlaceSlice(statement *engine.Statement, members []*model.Task) *model.Refusal {
	for _, task := range members {
		if task.Invalid != nil {
			return task.Invalid
		}
	}
	if refusal := t.ask.SliceOverLimit(members); refusal != nil {
		return refusal
	}
	t.tries, t.budget, t.incomplete = 0, searchBudget, false
	settled, _ := t.settled(members)
	m := &slicedMembers{entries: t.entriesOf(members[0]), tasks: slices.Clone(members)}
	t.arrange(m)
	placed := t.session.Try(func(inner *engine.Statement) *model.Refusal {
		if !t.placeSlices(inner, m, settled) {
			return noneOfDomain
		}
		return nil
	})
	if placed == nil {
		return nil
	}
	lacking := t.noSlices(m, settled)
	switch {
	case lacking == nil && t.incomplete:
		return t.noDomainForSlice(m, m.tasks).WithNote(notAllTried)
	case lacking == nil:
		return t.noDomainForSlice(m, m.tasks)
	case m.regular:
		lacking.Detail = fmt.Sprintf("slice %d: %s", t.slice(m.entries[len(m.entries)-1].shared, m.tasks[0]), lacking.Detail)
	}
	return lacking
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
func (t *Placer) placeOneByOne(statement *engine.Statement, parts [][]*model.Task, chosen regions) bool {
	if len(parts) == 0 {
		return true
	}
	for _, nodes := range t.tightest(parts[0], chosen) {
		if t.exhausted() {
			t.incomplete = true
			return false
		}
		t.tries++
		refusal := t.session.Try(func(inner *engine.Statement) *model.Refusal {
			if !t.placeAll(inner, parts[0], nodes) || !t.placeOneByOne(inner, parts[1:], chosen) {
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
func (t *Placer) tightest(members []*model.Task, chosen regions) (domains [][]int) {
	entries := t.entriesOf(members[0])
	level, list := entries[len(entries)-1].domains, t.confined(members, chosen)
	holds, lacks := make([]int64, level.Len()), make([]bool, level.Len())
	for _, alike := range byShape(members) {
		for domain, fits := range sumOver(&tiedShape{fits: t.fitsOf(alike)}, level, list) {
			holds[domain] += fits
			lacks[domain] = lacks[domain] || fits < int64(len(alike))
		}
	}
	for domain := range holds {
		if !lacks[domain] {
			domains = append(domains, intersection(level.Nodes(domain), list))
		}
	}
	slices.SortStableFunc(domains, func(a, b []int) int { return cmp.Compare(holds[level.At(a[0])], holds[level.At(b[0])]) })
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

// fitsOf returns how many members of one shape fit on each node, by its index, as the session stands. It must not be changed.
func (t *Placer) fitsOf(members []*model.Task) []int32 {
	fits, _ := t.fits(t.kinds.first(members))
	return fits
}

// confined returns the nodes of the domains that were chosen for any of the members.
func (t *Placer) confined(members []*model.Task, chosen regions) []int {
	return t.inside(nil, t.kindsOf(members, func(*model.Task) bool { return true }), chosen)
}
