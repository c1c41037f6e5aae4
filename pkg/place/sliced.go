package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A job may say that every so many members share a domain. Filters keep a member in the domain of its slice once another one of
// it has a node; here domains are chosen for the slices of which none has. For members of one shape, in whole slices, numbers
// decide (cells.go). Slices of members that differ, or that have lost some, are tried one after the other.

// sliceEntry is an entry of the topology with slices.
type sliceEntry struct {
	shared  *model.TopologyConstraint
	domains *engine.Domains
}

// slicedMembers are waiting members of the minimum that the same entries cover.
type slicedMembers struct {
	// entries have the largest slices first, and of one size the level with the fewest domains.
	entries []sliceEntry
	// tasks are in the order of their indexes.
	tasks []*model.Task
	// regular reports that they have one shape and are in whole slices, but for the last one.
	regular bool
}

// slicedOf returns those of the members that are in slices, by the entries that cover them; those with most members first.
func (t *Placer) slicedOf(members []*model.Task) (all []slicedMembers) {
	byRole := map[string]int{} // which entries cover a task depends on its role alone
	for _, task := range members {
		i, known := byRole[task.Role]
		if !known {
			entries := t.entriesOf(task)
			i = slices.IndexFunc(all, func(one slicedMembers) bool { return sameEntries(one.entries, entries) })
			if i < 0 && len(entries) > 0 {
				i = len(all)
				all = append(all, slicedMembers{entries: entries})
			}
			byRole[task.Role] = i
		}
		if i >= 0 {
			all[i].tasks = append(all[i].tasks, task)
		}
	}
	for i := range all {
		t.arrange(&all[i])
	}
	slices.SortStableFunc(all, func(a, b slicedMembers) int { return cmp.Compare(len(b.tasks), len(a.tasks)) })
	return all
}

func sameEntries(a, b []sliceEntry) bool {
	return slices.EqualFunc(a, b, func(a, b sliceEntry) bool { return a.shared == b.shared })
}

// arrange sorts the members by their indexes, and sets whether numbers decide about them.
func (t *Placer) arrange(m *slicedMembers) {
	slices.SortStableFunc(m.tasks, func(a, b *model.Task) int {
		return cmp.Compare(t.index(m.entries[0].shared, a), t.index(m.entries[0].shared, b))
	})
	m.regular = sameShape(m.tasks) && t.inWholeSlices(m)
}

// minimum returns the waiting members that make up the minimum.
func (t *Placer) minimum() []*model.Task {
	short := int(t.job.MinMember) - t.job.Count(t.readiness().Counts)
	return t.members[:min(max(0, short), len(t.members))]
}

// entriesOf returns the entries with slices that cover a task.
func (t *Placer) entriesOf(task *model.Task) (entries []sliceEntry) {
	for i := range t.job.Topology {
		if shared := &t.job.Topology[i]; shared.SliceSize > 0 && !shared.Preferred && shared.Covers(task) {
			entries = append(entries, sliceEntry{shared, t.session.Domains(shared.Level)})
		}
	}
	slices.SortStableFunc(entries, func(a, b sliceEntry) int {
		return cmp.Or(cmp.Compare(b.shared.SliceSize, a.shared.SliceSize), cmp.Compare(a.domains.Len(), b.domains.Len()))
	})
	return entries
}

// index returns the index of a task; -1 when it has none.
func (t *Placer) index(shared *model.TopologyConstraint, task *model.Task) int {
	if index, ok := t.session.Index(t.job, shared, task); ok {
		return index
	}
	return -1
}

// slice returns the number of a task's slice, 0 where the entry has no slices.
func (t *Placer) slice(shared *model.TopologyConstraint, task *model.Task) int {
	if shared.SliceSize == 0 {
		return 0
	}
	return t.index(shared, task) / int(shared.SliceSize)
}

// SlicesOf returns which slices a task is in, as text that is equal for tasks in the same ones; empty when it is in none.
func SlicesOf(ask engine.Ask, task *model.Task) string { return placerFor(ask).slicesKey(task) }

func (t *Placer) slicesKey(task *model.Task) (key string) {
	for _, entry := range t.entriesOf(task) {
		key += fmt.Sprint(" ", t.slice(entry.shared, task))
	}
	return key
}

// inWholeSlices reports whether the members are in slices of which no other member has a node, all as large as they are to be,
// but for the last one.
func (t *Placer) inWholeSlices(m *slicedMembers) bool {
	for _, entry := range m.entries {
		size, number := int(entry.shared.SliceSize), -1
		for i, task := range m.tasks {
			slice := t.slice(entry.shared, task)
			if slice == number != (i%size > 0) || t.ask.SharedDomain(entry.shared, slice) >= 0 {
				return false
			}
			number = slice
		}
	}
	return true
}

// invalidSlices returns why the job's slices cannot be formed; nil when they can.
func (t *Placer) invalidSlices() *model.Refusal {
	for i := range t.job.Topology {
		if refusal := t.session.InvalidSlices(t.job, &t.job.Topology[i]); refusal != nil {
			return refusal
		}
	}
	return nil
}

// levels are those of the entries, for cells.
func (m *slicedMembers) levels() (levels []cellLevel) {
	for _, entry := range m.entries {
		levels = append(levels, cellLevel{size: int64(entry.shared.SliceSize), domain: entry.domains.At})
	}
	return levels
}

// slicesOf returns the levels of the slices that the members of one shape in a tie are in, where they alone are in them, and in
// whole ones.
func (t *Placer) slicesOf(one *tiedShape, kinds map[equivalenceClass]bool) []cellLevel {
	i := slices.IndexFunc(t.sliced, func(m slicedMembers) bool { return m.regular && m.tasks[0].Shape == one.tasks[0].Shape })
	if i < 0 {
		return nil
	}
	alike := 0
	for _, task := range t.minimum() {
		if task.Shape == one.tasks[0].Shape && kinds[t.kinds.of(task)] {
			alike++
		}
	}
	if alike != len(t.sliced[i].tasks) {
		return nil
	}
	return t.sliced[i].levels()
}
