package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says what members that share a domain need, and which domains come nearest to it.

// noDomain says which domains come nearest to what a tie needs; nil when one has enough by numbers, so that something else keeps
// its members out.
func (t *Placer) noDomain(tie *levelTie, settled []topologyDomain) *model.Refusal {
	level := t.session.Domains(tie.shared.Level)
	sets := t.capacities(tie, level, settled)
	if tie.needs == 0 || slices.ContainsFunc(sets, func(set domainSet) bool { return set.suffices }) {
		return nil
	}
	slices.SortStableFunc(sets, func(a, b domainSet) int { return cmp.Compare(b.fits, a.fits) })
	var total int64
	for _, set := range sets {
		total = min(total+set.fits+set.left, model.MaxAmount)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "needs %d in one %s", tie.needs, level.Level)
	if roles := tie.shared.Roles; roles != nil {
		fmt.Fprintf(&b, " (role %s)", strings.Join(roles, ", "))
	}
	if size := tie.sliceSize(); size > 0 {
		fmt.Fprintf(&b, ", in slices of %d", size)
	}
	nameDomains(&b, level, len(sets), func(i int) (domain int, holds int64) { return sets[i].domain, sets[i].fits })
	if total >= tie.needs {
		fmt.Fprintf(&b, "; all together for %d", total)
	}
	none := level.Unlabelled()
	switch {
	case len(sets) == 0 && level.Label() != "":
		fmt.Fprintf(&b, ": no node has the label %s", level.Label())
	case none > 0:
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	refusal := &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: tie.needs, Evictable: true}
	if len(sets) > 0 {
		refusal.Has = sets[0].fits
	}
	return refusal
}

// nameDomains writes for how many members the first of the domains have capacity, of which there are n.
func nameDomains(b *strings.Builder, level *framework.Domains, n int, of func(i int) (domain int, holds int64)) {
	separator := ": "
	for i := range min(n, maxDomainsNamed) {
		domain, holds := of(i)
		fmt.Fprintf(b, "%s%s has capacity for %d", separator, level.Name(domain), holds)
		separator = ", "
	}
	if more := n - maxDomainsNamed; more > 0 {
		fmt.Fprintf(b, ", %d more for as many or fewer", more)
	}
}

// sliceSize returns the size of the smallest slices that members of the tie are in; 0 when they are in none.
func (tie *levelTie) sliceSize() (size int64) {
	for i := range tie.shapes {
		for _, level := range tie.shapes[i].slices {
			size = level.size
		}
	}
	return size
}

// noSlices says which domains come nearest to what slices need; nil when there is capacity for all of them by numbers, and where
// numbers do not decide.
func (t *Placer) noSlices(m *slicedMembers, settled []topologyDomain, room model.CapacityKind) *model.Refusal {
	if !m.regular {
		return nil
	}
	cells := newCell(m.levels(), t.fitsOf(m.tasks, room), t.confined(m.tasks, settled))
	needs := int64(len(m.tasks))
	if cells.holds >= needs {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "needs %d", needs)
	for i, entry := range m.entries {
		joint := " in"
		if i > 0 {
			joint = ", and in"
		}
		fmt.Fprintf(&b, "%s slices of %d, each in one %s", joint, entry.shared.SliceSize, entry.shared.Level)
	}
	slices.SortStableFunc(cells.parts, func(a, b *cell) int { return cmp.Compare(b.holds, a.holds) })
	widest := m.entries[0].domains
	nameDomains(&b, widest, len(cells.parts), func(i int) (int, int64) { return cells.parts[i].domain, cells.parts[i].holds })
	fmt.Fprintf(&b, "; all together for %d", cells.holds)
	if none := widest.Unlabelled(); none > 0 {
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	return &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: needs, Has: cells.holds, Evictable: true}
}

// minimumOf returns how many of those members the minimum needs at least.
func (t *Placer) minimumOf(is func(*model.Task) bool) int64 {
	others := t.job.Count(framework.Ready.Counts)
	for _, task := range t.members {
		if !is(task) {
			others++
		}
	}
	return max(0, int64(t.job.MinMember)-int64(others))
}

// minimumOfRoles returns how many more members of the roles their minima need.
func (t *Placer) minimumOfRoles(roles []string) (needs int64) {
	for _, role := range t.job.Roles {
		if slices.Contains(roles, role.Name) {
			has := t.job.Count(func(task *model.Task) bool { return task.Role == role.Name && framework.Ready.Counts(task) })
			needs += max(0, int64(role.MinMember)-int64(has))
		}
	}
	return needs
}

// maxDomainsNamed is how many domains a message names.
const maxDomainsNamed = 3
