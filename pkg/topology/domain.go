package topology

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// noDomain is the domain of a node that lacks the label.
const noDomain int32 = -1

// keyName names a topology key.
type keyName struct {
	label string
	// missingAsEmpty treats nodes without the label as nodes with an empty one.
	missingAsEmpty bool
}

// key is a topology key. It numbers the values that nodes have under it: the domains.
//
// Invariant: a number is given to another value only when no node has the old one any more, and then every table says 0
// for it.
type key struct {
	keyName
	// perNode makes every node a domain of its own, whatever its labels.
	perNode bool
	// nowhere makes no node have a domain.
	nowhere bool

	numbers map[string]int32
	values  []string
	// nodesPerDomain is how many nodes each domain has.
	nodesPerDomain []int32
	free           []int32
	// of is the domain of each slot, at that of each node by its place in the snapshot.
	of, at []int32
}

// value returns the node's value under the key.
func (k *key) value(node *corev1.Node) (string, bool) {
	switch {
	case k.perNode:
		return node.Name, true
	case k.nowhere:
		return "", false
	}
	value, ok := node.Labels[k.label]
	return value, ok || k.missingAsEmpty
}

// enter takes the node of a slot into its domain.
func (k *key) enter(slot int32, node *corev1.Node) {
	for len(k.of) <= int(slot) {
		k.of = append(k.of, noDomain)
	}
	value, ok := k.value(node)
	if !ok {
		k.of[slot] = noDomain
		return
	}
	domain, known := k.numbers[value]
	if !known {
		domain = k.number(value)
	}
	k.nodesPerDomain[domain]++
	k.of[slot] = domain
}

func (k *key) number(value string) int32 {
	var domain int32
	if last := len(k.free) - 1; last >= 0 {
		domain = k.free[last]
		k.free = k.free[:last]
	} else {
		domain = int32(len(k.nodesPerDomain))
		k.nodesPerDomain, k.values = append(k.nodesPerDomain, 0), append(k.values, "")
	}
	k.numbers[value], k.values[domain] = domain, value
	return domain
}

// leave takes the node of a slot out of its domain.
func (k *key) leave(slot int32) {
	domain := k.of[slot]
	if domain == noDomain {
		return
	}
	k.of[slot] = noDomain
	if k.nodesPerDomain[domain]--; k.nodesPerDomain[domain] == 0 {
		delete(k.numbers, k.values[domain])
		k.values[domain] = ""
		k.free = append(k.free, domain)
	}
}

// domainCounts is one number per domain of a key.
type domainCounts struct {
	key *key
	// selected are the pods it counts; nil for a table that sums up terms of pods on nodes.
	selected *podSet
	counts   []int64
	// total is how many pods the numbers come from.
	total int64
	// among narrows the nodes whose pods count; nil is all.
	among *eligibleNodes
	// sources are the classes or terms that update the table, so that it can be unsubscribed from them.
	sources []*podCounts
	// used is when the table was last queried, on the index's clock.
	used uint64

	// domains is how many domains have a node that counts, and lowest the least number among them; valid as long as nothing
	// has changed.
	domains  int
	lowest   int64
	minValid bool
	// has counts the nodes that count by domain, as of one layout.
	has    []int32
	layout uint64
}

// add changes the number of the slot's domain by so many pods.
func (t *domainCounts) add(slot int32, pods, weight int64) {
	domain := t.key.of[slot]
	if domain == noDomain || t.among != nil && !t.among.has[slot] {
		return
	}
	for len(t.counts) <= int(domain) {
		t.counts = append(t.counts, 0)
	}
	t.counts[domain] += pods * weight
	t.total += pods
	t.minValid = false
}

// count returns the number of a domain; 0 for nowhere.
func (t *domainCounts) count(domain int32) int64 {
	if uint(domain) < uint(len(t.counts)) {
		return t.counts[domain]
	}
	return 0
}

// on returns the number of the domain of a node, by its place in the snapshot.
func (t *domainCounts) on(node int) int64 { return t.count(t.key.at[node]) }

// computeMin computes the least number and the number of domains. The layout shows whether nodes have changed since.
func (t *domainCounts) computeMin(layout uint64) {
	if t.layout != layout {
		t.layout, t.minValid = layout, false
		t.has = append(t.has[:0], make([]int32, len(t.key.nodesPerDomain))...)
		for slot, domain := range t.key.of {
			if domain != noDomain && (t.among == nil || t.among.has[slot]) {
				t.has[domain]++
			}
		}
	}
	if t.minValid {
		return
	}
	t.minValid, t.domains, t.lowest = true, 0, 0
	for domain, nodes := range t.has {
		if nodes == 0 {
			continue
		}
		if n := t.count(int32(domain)); t.domains == 0 || n < t.lowest {
			t.lowest = n
		}
		t.domains++
	}
}

// podCounts is the nodes on which pods of one kind are, and the tables that count them.
type podCounts struct {
	// places are sorted by slot.
	places []nodeCount
	feeds  []subscription
}

// nodeCount is how many of them are on one node.
type nodeCount struct {
	slot  int32
	count int32
}

// subscription is a table and what one pod adds to it.
type subscription struct {
	table  *domainCounts
	weight int64
}

// move adds so many pods to a node, or removes them.
func (p *podCounts) move(slot int32, n int32) {
	i, found := slices.BinarySearchFunc(p.places, slot, func(at nodeCount, slot int32) int { return cmp.Compare(at.slot, slot) })
	switch {
	case !found:
		p.places = slices.Insert(p.places, i, nodeCount{slot: slot, count: n})
	case p.places[i].count+n == 0:
		p.places = slices.Delete(p.places, i, i+1)
	default:
		p.places[i].count += n
	}
	for _, feed := range p.feeds {
		feed.table.add(slot, int64(n), feed.weight)
	}
}

// subscribe makes the pods update the table from now on, and adds those that are on nodes already.
func (p *podCounts) subscribe(t *domainCounts, weight int64) {
	p.feeds = append(p.feeds, subscription{table: t, weight: weight})
	t.sources = append(t.sources, p)
	for _, at := range p.places {
		t.add(at.slot, int64(at.count), weight)
	}
}

// unsubscribe removes a table from the list.
func (p *podCounts) unsubscribe(t *domainCounts) {
	p.feeds = slices.DeleteFunc(p.feeds, func(f subscription) bool { return f.table == t })
}

// unsubscribeAll removes the table from the lists of all its sources.
func (t *domainCounts) unsubscribeAll() {
	for _, p := range t.sources {
		p.unsubscribe(t)
	}
	t.sources = nil
}
