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

// noDomain says which domains come nearest to what a tie needs, within those that were chosen before; nil when one has enough by
// numbers, so that something else keeps its members out.
func (t *Placer) noDomain(tie *levelTie, chosen []topologyDomain) *model.Refusal {
	level := t.session.Domains(tie.shared.Level)
	sets := t.capacities(tie, level, chosen)
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
	separator := ": "
	for _, set := range sets[:min(len(sets), maxDomainsNamed)] {
		fmt.Fprintf(&b, "%s%s has capacity for %d", separator, level.Name(set.domain), set.fits)
		separator = ", "
	}
	if more := len(sets) - maxDomainsNamed; more > 0 {
		fmt.Fprintf(&b, ", %d more for as many or fewer", more)
	}
	if total >= tie.needs {
		fmt.Fprintf(&b, "; all together for %d", total)
	}
	if none := level.Unlabelled(); none > 0 {
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	refusal := &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: tie.needs, Evictable: true}
	if len(sets) > 0 {
		refusal.Has = sets[0].fits
	}
	return refusal
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
