package place

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A gang whose members must share a domain, such as a zone or a rack, starts in the domain of its first member, however small
// that is. When that fails it is tried domain by domain. Members may be tied in several ways: by zone and by rack, servers in
// one rack and workers in another one. Then one domain is chosen for each of the ties.

const (
	// maxDomains is how many domains are tried for one job whatever the cost. Of domains that members must share more are
	// tried within the search budget; past it a gang may wait although it could start.
	maxDomains = 32
	// domainDiscount is how many nodes such a try may visit for the cost of one node in an exact search: most are only
	// checked for a label. placingCost is the additional cost of placing a member.
	domainDiscount = 16
	placingCost    = 16
)

// requiredColocations returns the ties of members by required affinity to each other: those with the affinity and those it
// selects.
func (t *Placer) requiredColocations() (ties []levelTie) {
	if !slices.ContainsFunc(t.members, hasRequiredAffinity) {
		return nil
	}
	first := t.kinds.first(t.members)
	for _, task := range first {
		for _, sibling := range first {
			if !Requires(task, sibling) {
				continue
			}
			for _, term := range RequiredTerms(task) {
				ties = merge(ties, tieByLabel(term.TopologyKey, t.kinds.of(task), t.kinds.of(sibling)))
			}
		}
	}
	ties = t.counted(ties)
	for i := range ties {
		tie := &ties[i]
		tie.needs = max(1, t.minimumOf(func(task *model.Task) bool { return tie.members[t.kinds.of(task)] }))
		for j := range tie.shapes {
			tie.shapes[j].needs = max(1, tie.shapes[j].needs)
		}
	}
	return ties
}

// tieByLabel ties members of some kinds by a label of which they share one value.
func tieByLabel(key string, kinds ...equivalenceClass) levelTie {
	tie := levelTie{shared: &model.TopologyConstraint{Level: model.LabelLevel(key)}, members: map[equivalenceClass]bool{}}
	for _, kind := range kinds {
		tie.members[kind] = true
	}
	return tie
}

// counted completes ties by labels, those of the labels with the most values first: members that share a rack mostly share the
// zone, too.
func (t *Placer) counted(ties []levelTie) []levelTie {
	ties = slices.DeleteFunc(ties, func(tie levelTie) bool { return t.session.Domains(tie.shared.Level) == nil })
	for i := range ties {
		tie := &ties[i]
		tie.levels, tie.shapes = []*engine.Domains{t.session.Domains(tie.shared.Level)}, t.shapesOf(tie.members)
	}
	slices.SortStableFunc(ties, func(a, b levelTie) int {
		return cmp.Or(cmp.Compare(b.levels[0].Len(), a.levels[0].Len()), cmp.Compare(a.shared.Level, b.shared.Level))
	})
	return ties
}

// merge adds a tie. It joins it with those of the same label that tie any of the same members.
func merge(ties []levelTie, more levelTie) []levelTie {
	var apart []levelTie
	for _, one := range ties {
		if one.shared.Level != more.shared.Level || !intersects(one.members, more.members) {
			apart = append(apart, one)
			continue
		}
		for of := range more.members {
			one.members[of] = true
		}
		more = one
	}
	return append(apart, more)
}

func intersects(a, b map[equivalenceClass]bool) bool {
	for of := range a {
		if b[of] {
			return true
		}
	}
	return false
}

// placeInDomain tries to start with the members that must share a domain in their domains; if others take their places there,
// with the members first that have the fewest nodes to go to.
func (t *Placer) placeInDomain(within regions) bool {
	try := func(members []*model.Task) bool {
		return t.session.Try(func(statement *engine.Statement) *model.Refusal {
			return t.placeInOrder(statement, members, within)
		}) == nil
	}
	if try(t.members) {
		return true
	}
	confined, differ := t.mostConfinedFirst(within)
	return differ && try(confined)
}

// mostConfinedFirst returns the members by how many nodes the domains leave them; differ is false when that is the same for all.
func (t *Placer) mostConfinedFirst(within regions) (members []*model.Task, differ bool) {
	count := func(task *model.Task) int {
		if list, confined := within.of(t.kinds, task); confined {
			return len(list)
		}
		return len(t.session.Snapshot.Nodes)
	}
	differ = slices.ContainsFunc(t.members, func(task *model.Task) bool { return count(task) != count(t.members[0]) })
	members = slices.Clone(t.members)
	slices.SortStableFunc(members, func(a, b *model.Task) int { return cmp.Compare(count(a), count(b)) })
	return members, differ
}

// charge takes visited nodes off the budget, and one more, once the free choices are used up.
func (t *Placer) charge(looks int) {
	if t.tries > maxDomains {
		t.spend(looks + 1)
	}
}

// exhausted reports whether no more domains may be tried.
func (t *Placer) exhausted() bool { return t.tries >= maxDomains && !t.hasBudget() }

// capacityFor returns an upper bound of how many members of some kinds, all of one shape, fit on the nodes: by their
// capacity, and for members with mutual anti-affinity one for each value of the label.
func capacityFor(sharing []*model.Task, nodes []*model.Node, ask engine.Ask) int64 {
	alone := len(hostPorts(sharing[0].Pod.Spec.Containers)) > 0 && len(sharing) == 1
	fits := func(node *model.Node) int64 {
		fits := ask.Free(node).Copies(sharing[0].Request)
		if alone {
			return min(1, fits)
		}
		return fits
	}
	var most int64
	for _, node := range nodes {
		most = min(model.MaxAmount, most+fits(node))
	}
	for _, key := range mutualAntiAffinityKeys(sharing) {
		var held int64
		seen := map[string]bool{}
		for _, node := range nodes {
			value, ok := node.Object.Labels[key]
			switch n := fits(node); {
			case n == 0 || ok && seen[value]:
			case ok:
				seen[value] = true
				held++
			default: // no anti-affinity applies there
				held = min(model.MaxAmount, held+n)
			}
		}
		most = min(most, held)
	}
	return most
}
