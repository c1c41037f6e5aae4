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

// colocation is a topology label of which some members must share one value, by required affinity to each other: those with the
// affinity and those it selects. Or those with a preferred affinity prefer to.
type colocation struct {
	key     string
	members map[equivalenceClass]bool
	// lead is the first member that has the affinity; values is how many domains there are for it.
	lead   *model.Task
	values int
}

// requiredColocations returns the ties between members, the labels with the most values first: members that share a rack
// mostly share the zone, too.
func (t *Placer) requiredColocations() []colocation {
	if !slices.ContainsFunc(t.members, hasRequiredAffinity) {
		return nil
	}
	first := t.kinds.first(t.members)
	var ties []colocation
	for _, task := range first {
		for _, sibling := range first {
			if !requiresSibling(task, sibling) {
				continue
			}
			for _, term := range requiredTerms(task) {
				ties = merge(ties, colocation{key: term.TopologyKey, lead: task, members: map[equivalenceClass]bool{
					t.kinds.of(task): true, t.kinds.of(sibling): true,
				}})
			}
		}
	}
	return t.byValues(ties)
}

// byValues orders colocations by how many values their labels have for the lead, those with the most first.
func (t *Placer) byValues(all []colocation) []colocation {
	for i := range all {
		values := map[string]bool{}
		for _, node := range t.session.EligibleNodes(all[i].lead) {
			if value, ok := node.Object.Labels[all[i].key]; ok {
				values[value] = true
			}
		}
		all[i].values = len(values)
	}
	slices.SortStableFunc(all, func(a, b colocation) int {
		return cmp.Or(cmp.Compare(b.values, a.values), cmp.Compare(a.key, b.key))
	})
	return all
}

// merge adds a tie. It joins it with those of the same label that tie any of the same members.
func merge(ties []colocation, more colocation) []colocation {
	var apart []colocation
	for _, one := range ties {
		if one.key != more.key || !intersects(one.members, more.members) {
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

// placeInDomains tries the domains of the ties, within those that were chosen before. Every choice counts against the limit,
// also one that leaves none for the next tie: several ties have too many combinations to try all.
func (t *Placer) placeInDomains(ties []colocation, chosen regions) bool {
	if len(ties) == 0 {
		return len(chosen) > 0 && t.placeInDomain(chosen)
	}
	one := &ties[0]
	needs := func(shape model.Shape) int64 {
		return max(1, t.minimumOf(func(task *model.Task) bool { return task.Shape == shape && one.members[t.kinds.of(task)] }))
	}
	for _, value := range t.domains(one, needs, chosen) {
		if t.exhausted() {
			return false
		}
		t.tries++
		if t.placeInDomains(ties[1:], chosen.with(one.members, t.nodesWith(one.key, value))) {
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
		if list, confined := within[t.kinds.of(task)]; confined {
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

// domains returns the values of a label that have capacity for so many of the members that share one, by shape, the largest
// first; on nodes of the domains that were chosen before.
func (t *Placer) domains(of *colocation, needs func(model.Shape) int64, chosen regions) []string {
	t.charge(len(t.session.Snapshot.Nodes) / 2)
	var domains []string
	size := map[string]int64{}
	for i, sharing := range t.representatives(of) {
		values, nodes := t.groupByDomain(sharing[0], of.key, chosen)
		needed, holds := needs(sharing[0].Shape), map[string]int64{}
		for _, value := range values {
			holds[value] = capacityFor(sharing, nodes[value], t.ask)
		}
		if i == 0 {
			domains, size = values, holds
		}
		domains = slices.DeleteFunc(domains, func(value string) bool { return holds[value] < needed })
	}
	slices.SortStableFunc(domains, func(a, b string) int { return cmp.Compare(size[b], size[a]) })
	return domains
}

// nodesWith returns the nodes with a value of a label.
func (t *Placer) nodesWith(key, value string) (nodes []int) {
	for i, node := range t.session.Snapshot.Nodes {
		if label, ok := node.Object.Labels[key]; ok && label == value {
			nodes = append(nodes, i)
		}
	}
	return nodes
}

// representatives returns the first member of each kind in the tie, those of one shape together, the lead's before the others.
func (t *Placer) representatives(of *colocation) [][]*model.Task {
	groups := [][]*model.Task{{of.lead}}
	for _, task := range t.kinds.first(t.members) {
		if !of.members[t.kinds.of(task)] || task == of.lead {
			continue
		}
		i := slices.IndexFunc(groups, func(group []*model.Task) bool { return group[0].Shape == task.Shape })
		if i < 0 {
			i = len(groups)
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], task)
	}
	return groups
}

// groupByDomain groups the task's candidates in the chosen domains by their values of a label, which it returns in the order
// of nodes.
func (t *Placer) groupByDomain(task *model.Task, key string, chosen regions) (values []string, nodes map[string][]*model.Node) {
	inside, confined := chosen[t.kinds.of(task)]
	nodes = map[string][]*model.Node{}
	for _, node := range t.session.EligibleNodes(task) {
		value, ok := node.Object.Labels[key]
		if _, in := slices.BinarySearch(inside, node.Index); !ok || confined && !in {
			continue
		}
		if nodes[value] == nil {
			values = append(values, value)
		}
		nodes[value] = append(nodes[value], node)
	}
	return values, nodes
}

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
