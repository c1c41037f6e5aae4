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

// topologyDomain is the nodes that share one value of a topology label.
type topologyDomain struct {
	// of are the kinds of members that must be in it; the others go anywhere.
	of map[equivalenceClass]bool
	// nodes reports by a node's index whether it is in the domain: this is read for every member.
	nodes []bool
	// list are the nodes in it, by index; nil where all nodes are looked at instead.
	list []int
}

func (t *Placer) domain(key, value string, of map[equivalenceClass]bool) topologyDomain {
	d := topologyDomain{of: of, nodes: make([]bool, len(t.session.Snapshot.Nodes))}
	for i, node := range t.session.Snapshot.Nodes {
		label, ok := node.Object.Labels[key]
		d.nodes[i] = ok && label == value
	}
	return d
}

func (d *topologyDomain) has(node *model.Node) bool { return d.nodes[node.Index] }

// nodeCondition returns the condition of the domains on the task's node; nil when there is none.
func (t *Placer) nodeCondition(within []topologyDomain, task *model.Task) func(*model.Node) bool {
	var bound []topologyDomain
	for i := range within {
		if within[i].of[t.kinds.of(task)] {
			bound = append(bound, within[i])
		}
	}
	switch len(bound) {
	case 0:
		return nil
	case 1:
		return bound[0].has
	}
	return func(node *model.Node) bool {
		return !slices.ContainsFunc(bound, func(d topologyDomain) bool { return !d.has(node) })
	}
}

// listedIn returns the nodes to which the domains confine the task; ok is false where none of them lists its nodes.
func (t *Placer) listedIn(within []topologyDomain, task *model.Task) (list []int, ok bool) {
	inside := t.nodeCondition(within, task)
	for i := range within {
		if d := &within[i]; d.list != nil && d.of[t.kinds.of(task)] && (!ok || len(d.list) < len(list)) {
			list, ok = d.list, true
		}
	}
	nodes := t.session.Snapshot.Nodes
	outside := func(node int) bool { return !inside(nodes[node]) }
	if ok && slices.ContainsFunc(list, outside) {
		list = slices.DeleteFunc(slices.Clone(list), outside)
	}
	return list, ok
}

const (
	// maxDomains is how many domains are tried for one job whatever the cost. Of domains that members must share more are
	// tried within the search budget; past it a gang may wait although it could start.
	maxDomains = 32
	// domainDiscount is how many nodes such a try may visit for the cost of one node in an exact search: most are only
	// checked for a label. placingCost is the additional cost of placing a member.
	domainDiscount = 16
	placingCost    = 16
)

// requiredColocation is a topology label of which some members must share one value, by required affinity to each other:
// those with the affinity and those it selects.
type requiredColocation struct {
	key     string
	members map[equivalenceClass]bool
	// anchor is a member that has the affinity; values is how many domains there are for it.
	anchor *model.Task
	values int
}

// requiredColocations returns the ties between members, the labels with the most values first: members that share a rack
// mostly share the zone, too.
func (t *Placer) requiredColocations() []requiredColocation {
	if !slices.ContainsFunc(t.members, hasRequiredAffinity) {
		return nil
	}
	first := t.kinds.first(t.members)
	var ties []requiredColocation
	for _, task := range first {
		for _, sibling := range first {
			if !Requires(task, sibling) {
				continue
			}
			for _, term := range RequiredTerms(task) {
				ties = merge(ties, requiredColocation{key: term.TopologyKey, anchor: task, members: map[equivalenceClass]bool{
					t.kinds.of(task): true, t.kinds.of(sibling): true,
				}})
			}
		}
	}
	for i := range ties {
		ties[i].values = t.domainCount(ties[i].anchor, ties[i].key)
	}
	slices.SortStableFunc(ties, func(a, b requiredColocation) int {
		return cmp.Or(cmp.Compare(b.values, a.values), cmp.Compare(a.key, b.key))
	})
	return ties
}

// merge adds a tie. It joins it with those of the same label that tie any of the same members.
func merge(ties []requiredColocation, more requiredColocation) []requiredColocation {
	var apart []requiredColocation
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
func (t *Placer) placeInDomains(ties []requiredColocation, chosen []topologyDomain) bool {
	if len(ties) == 0 {
		return len(chosen) > 0 && t.placeInDomain(chosen)
	}
	one := &ties[0]
	for _, value := range t.domains(one, chosen) {
		if t.exhausted() {
			return false
		}
		t.tries++
		if t.placeInDomains(ties[1:], append(slices.Clip(chosen), t.domain(one.key, value, one.members))) {
			return true
		}
	}
	return false
}

// placeInDomain tries to start with the members that must share a domain in their domains; if others take their places there,
// with the members first that have the fewest nodes to go to.
func (t *Placer) placeInDomain(within []topologyDomain) bool {
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
func (t *Placer) mostConfinedFirst(within []topologyDomain) (members []*model.Task, differ bool) {
	nodes := map[equivalenceClass]int{}
	count := func(task *model.Task) int {
		n, known := nodes[t.kinds.of(task)]
		if !known {
			n = len(t.session.Snapshot.Nodes)
			if list, ok := t.listedIn(within, task); ok {
				n = len(list)
			} else if t.nodeCondition(within, task) != nil {
				n--
			}
			nodes[t.kinds.of(task)] = n
		}
		return n
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

// domains returns the values of a tie's label that have capacity for its share of the job's minimum, the largest first; on
// nodes of the domains that were chosen before.
func (t *Placer) domains(of *requiredColocation, chosen []topologyDomain) []string {
	t.charge(len(t.session.Snapshot.Nodes) / 2)
	var domains []string
	size := map[string]int64{}
	for i, sharing := range t.representatives(of) {
		values, nodes := t.groupByDomain(sharing[0], of.key, chosen)
		needed, holds := t.minimumOfShape(of, sharing[0].Shape), map[string]int64{}
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

// representatives returns the first member of each kind in the tie, those of one shape together, the anchor's before the others.
func (t *Placer) representatives(of *requiredColocation) [][]*model.Task {
	groups := [][]*model.Task{{of.anchor}}
	for _, task := range t.kinds.first(t.members) {
		if !of.members[t.kinds.of(task)] || task == of.anchor {
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
func (t *Placer) groupByDomain(task *model.Task, key string, chosen []topologyDomain) (values []string, nodes map[string][]*model.Node) {
	inside := t.nodeCondition(chosen, task)
	nodes = map[string][]*model.Node{}
	for _, node := range t.session.EligibleNodes(task) {
		value, ok := node.Object.Labels[key]
		if !ok || inside != nil && !inside(node) {
			continue
		}
		if nodes[value] == nil {
			values = append(values, value)
		}
		nodes[value] = append(nodes[value], node)
	}
	return values, nodes
}

// minimumOfShape returns how many members of a shape in the tie the minimum needs, at least one.
func (t *Placer) minimumOfShape(of *requiredColocation, shape model.Shape) int64 {
	return max(1, t.minimumOf(func(task *model.Task) bool { return task.Shape == shape && of.members[t.kinds.of(task)] }))
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
