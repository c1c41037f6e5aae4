package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says what members that share a domain need, and which domains come nearest to it.

// noDomain says which domains come nearest to what a tie needs; nil when one has enough by numbers, so that something else keeps
// its members out.
func (t *Placer) noDomain(tie *levelTie, settled regions) *model.Refusal {
	level := t.session.Domains(tie.shared.Level)
	sets := t.capacities(tie, level, settled)
	if tie.needs == 0 || slices.ContainsFunc(sets, domainSet.suffices) {
		return nil
	}
	slices.SortStableFunc(sets, func(a, b domainSet) int { return cmp.Compare(a.lacks, b.lacks) })
	total := t.together(tie, level, settled)
	var b strings.Builder
	b.WriteString("needs " + tie.part())
	if size := tie.sliceSize(); size > 0 {
		fmt.Fprintf(&b, ", in slices of %d", size)
	}
	most := ""
	if len(tie.shapes) > 1 {
		most = "at most " // members of one request may take the capacity of others
	}
	nameDomains(&b, level, len(sets), most, func(i int) (domain int, holds int64) { return sets[i].domain, tie.needs - sets[i].lacks })
	if total >= tie.needs {
		fmt.Fprintf(&b, "; all together for %s%d", most, total)
	}
	none := level.Unlabelled()
	switch {
	case len(sets) == 0 && level.Label() != "":
		fmt.Fprintf(&b, ": no node has the label %s", level.Label())
	case none > 0:
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	t.nameRuledOut(&b, tie.shapes[0].tasks[0])
	refusal := &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: tie.needs, Evictable: true}
	if len(sets) > 0 {
		refusal.Has = tie.needs - sets[0].lacks
	}
	return refusal
}

// noDomainOf says which of the smallest slices has no domain with capacity for its members; nil when each has one by numbers.
func (t *Placer) noDomainOf(m *slicedMembers, settled regions) *model.Refusal {
	for _, part := range t.apart(m) {
		if len(t.tightest(part, settled)) == 0 {
			return t.noDomainForSlice(m, part)
		}
	}
	return nil
}

// noDomainForSlice refuses a slice, and says in which domains it has to be since others of the gang are there.
func (t *Placer) noDomainForSlice(m *slicedMembers, part []*model.Task) *model.Refusal {
	smallest, around := m.entries[len(m.entries)-1].shared, ""
	for i := range t.job.Topology {
		wider := &t.job.Topology[i]
		if wider == smallest || wider.Preferred || !wider.Covers(part[0]) {
			continue
		}
		if at := t.ask.SharedDomain(wider, t.slice(wider, part[0])); at >= 0 {
			around += " in " + t.session.Domains(wider.Level).Name(at)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "slice %d: no %s%s has capacity for its %d members", t.slice(smallest, part[0]), smallest.Level, around, len(part))
	t.nameRuledOut(&b, part[0])
	return &model.Refusal{Code: model.NoDomainFits, Evictable: true, Detail: b.String()}
}

// lacksBesideOthers reports whether a slice has too little capacity, by numbers, in the domain in which some of its members are.
func (t *Placer) lacksBesideOthers(m *slicedMembers, settled regions) bool {
	smallest := m.entries[len(m.entries)-1]
	return !m.regular && slices.ContainsFunc(t.apart(m), func(part []*model.Task) bool {
		at := t.ask.SharedDomain(smallest.shared, t.slice(smallest.shared, part[0]))
		if at < 0 {
			return false
		}
		there := settled.with(t.kindsOf(part, smallest.shared.Covers), smallest.domains.Nodes(at))
		return len(t.tightest(part, there)) == 0
	})
}

// together returns for how many members all domains of a level have capacity; 0 where some of what the minimum needs fits into
// none of them.
func (t *Placer) together(tie *levelTie, level *engine.Domains, settled regions) (total int64) {
	for i := range tie.shapes {
		if sumUp(t.sum(&tie.shapes[i], level, tie, settled)) < tie.shapes[i].needs {
			return 0
		}
	}
	return sumUp(t.sumOfAll(tie, level, settled))
}

func sumUp(numbers []int64) (sum int64) {
	for _, number := range numbers {
		sum = min(sum+number, model.MaxAmount)
	}
	return sum
}

// nameDomains writes for how many members the first of n domains have capacity; most stands before the numbers.
func nameDomains(b *strings.Builder, level *engine.Domains, n int, most string, of func(i int) (domain int, holds int64)) {
	separator := ": "
	for i := range min(n, maxDomainsNamed) {
		domain, holds := of(i)
		fmt.Fprintf(b, "%s%s has capacity for %s%d", separator, level.Name(domain), most, holds)
		separator = ", "
	}
	if more := n - maxDomainsNamed; more > 0 {
		fmt.Fprintf(b, ", %d more for as many or fewer", more)
	}
}

// maxRuledOut is how many reasons nameRuledOut writes.
const maxRuledOut = 3

// nameRuledOut writes why nodes could not run a member even if they were empty, such as "; 4 nodes: untolerated taint
// {gpu: true}": a domain of such nodes has capacity for 0 members.
func (t *Placer) nameRuledOut(b *strings.Builder, member *model.Task) {
	reasons := t.session.RuledOut(member)
	for i, reason := range reasons[:min(len(reasons), maxRuledOut)] {
		b.WriteString([]string{"; ", ", "}[min(i, 1)] + reason.String())
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

// noSlices says which domains come nearest to what slices need; nil when there is capacity for each of them by numbers.
func (t *Placer) noSlices(m *slicedMembers, settled regions) *model.Refusal {
	if !m.regular {
		return t.noDomainOf(m, settled)
	}
	cells := newCell(m.levels(), t.fitsOf(m.tasks), t.confined(m.tasks, settled))
	needs := int64(len(m.tasks))
	if cells.holds >= needs {
		return nil
	}
	var b strings.Builder
	b.WriteString("needs " + m.part())
	slices.SortStableFunc(cells.parts, func(a, b *cell) int { return cmp.Compare(b.holds, a.holds) })
	widest := m.entries[0].domains
	nameDomains(&b, widest, len(cells.parts), "", func(i int) (int, int64) { return cells.parts[i].domain, cells.parts[i].holds })
	size := cells.size // of the largest slices, of which the last one may be smaller
	fits, smaller := cells.slots(size), needs%size
	if smaller > 0 && cells.rest(size) >= smaller {
		fits++
	}
	all, noun := (needs+size-1)/size, "slices"
	if all == 1 {
		noun = "slice"
	}
	fmt.Fprintf(&b, "; all together for %d of %d %s", fits, all, noun)
	if len(m.entries) > 1 {
		fmt.Fprintf(&b, " of %d", size)
	}
	if none := widest.Unlabelled(); none > 0 {
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	t.nameRuledOut(&b, m.tasks[0])
	return &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: needs, Has: cells.holds, Evictable: true}
}

// noChoice refuses members that have no place together. Each part, the members that share a domain, has a domain by itself. The
// refusal names the parts and the domains of their levels.
func (t *Placer) noChoice(required []levelTie, settled regions) *model.Refusal {
	var parts []string
	var domains strings.Builder
	named := map[string]bool{}
	for i := range required {
		tie := &required[i]
		if tie.needs == 0 {
			continue
		}
		parts = append(parts, tie.part())
		level := t.session.Domains(tie.shared.Level)
		if named[level.Level] {
			continue
		}
		named[level.Level] = true
		most := ""
		if len(tie.shapes) > 1 {
			most = "at most "
		}
		if len(named) > 1 {
			domains.WriteString("; of the level " + level.Level)
		}
		fits := t.sumOfAll(tie, level, settled)
		roomiest := descending(fits)
		nameDomains(&domains, level, len(roomiest), most, func(i int) (int, int64) { return roomiest[i], fits[roomiest[i]] })
	}
	for i := range t.sliced {
		parts = append(parts, t.sliced[i].part())
	}
	words := "each level of its topology has a domain with capacity for the members that share it"
	if len(parts) > 0 {
		words = "needs " + strings.Join(parts, ", ") + domains.String()
	}
	switch alike := sameShape(t.members); {
	case !alike && len(parts) > 1:
		words += "; each request of each part by itself has capacity"
	case !alike:
		words += "; each request by itself has capacity"
	case len(parts) > 1:
		words += "; each part by itself has capacity"
	}
	return &model.Refusal{
		Code: model.NoDomainFits, Needs: int64(t.job.MinMember), Evictable: true, Detail: words + "; no choice of domains has a place for all of them",
	}
}

// part says what a tie needs: "3 in one rack (role worker)".
func (tie *levelTie) part() string {
	return fmt.Sprintf("%d in one %s%s", tie.needs, tie.shared.Level, ofRoles(tie.shared))
}

// part says what slices need: "40 in slices of 16, each in one rack (role worker)".
func (m *slicedMembers) part() string {
	words := fmt.Sprint(len(m.tasks))
	for i, entry := range m.entries {
		joint := " in"
		if i > 0 {
			joint = ", and in"
		}
		words += fmt.Sprintf("%s slices of %d, each in one %s", joint, entry.shared.SliceSize, entry.shared.Level)
	}
	return words + ofRoles(m.entries[0].shared)
}

// ofRoles names the roles of an entry; empty where it is about all members.
func ofRoles(shared *model.TopologyConstraint) string {
	if shared.Roles == nil {
		return ""
	}
	return " (role " + strings.Join(shared.Roles, ", ") + ")"
}

// minimumOf returns how many of those members the minimum, and those of the roles, need at least.
func (t *Placer) minimumOf(is func(*model.Task) bool) int64 {
	needs, roles := int64(t.job.MinMember), slices.Clone(t.job.Roles)
	of := make([]int32, len(roles)) // how many of those members each role has
	roleOf := func(task *model.Task) int {
		return slices.IndexFunc(roles, func(role model.Role) bool { return role.Name == task.Role })
	}
	without := func(task *model.Task) {
		needs--
		if i := roleOf(task); i >= 0 {
			roles[i].MinMember--
		}
	}
	for _, task := range t.job.Tasks {
		if framework.Ready.Counts(task) {
			without(task)
		}
	}
	for _, task := range t.members {
		if !is(task) {
			without(task)
		} else if i := roleOf(task); i >= 0 {
			of[i]++
		}
	}
	ofRoles := int64(0)
	for i := range roles {
		ofRoles += int64(max(0, min(roles[i].MinMember, of[i])))
	}
	return max(0, needs, ofRoles)
}

// maxDomainsNamed is how many domains a message names.
const maxDomainsNamed = 3
