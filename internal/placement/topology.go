package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A job may say that its members share a domain of a level: a rack, a block. Filters keep members in the domain of those that have
// a node; here a domain is chosen for those of which none has. It is chosen by numbers alone, from how many members fit on each
// node. For members of one shape these decide: where they allow none, there is none.

// part is members that share a domain of one level and of which none has a node.
type part struct {
	shared *model.TopologyConstraint
	// levels are those whose domains are tried, the narrowest first: up to that of the part, and beyond a preferred one.
	levels []*framework.Domains
	// members are the kinds of the members.
	members map[equivalenceClass]bool
	// needs is how many of them the minimum needs at least.
	needs  int64
	shapes []shapeOfPart
}

// shapeOfPart is the waiting members of a part that have one shape.
type shapeOfPart struct {
	// tasks are one of each kind.
	tasks []*model.Task
	// needs is how many the minimum needs at least, exists how many there are.
	needs, exists int64
	// fits is how many fit on each node, by its index.
	fits []int64
}

// domainSet is nodes on which a part may be placed.
type domainSet struct {
	nodes []bool
	// domain is the number of the domain that they are, or are in.
	domain int
	// suffices reports whether it has capacity for what the minimum needs at least.
	suffices bool
	// fits is how many of the existing members fit; broken how many of the domains around it are whole, itself included, by level
	// from the widest; left for how many more there is capacity.
	fits   int64
	broken []int
	left   int64
}

// placeByTopology tries to start the job in domains that its parts share: first in those that they prefer. The refusal says which
// domain is lacking; without one, something else decides.
func (t *Placer) placeByTopology(room model.CapacityKind) (placed bool, refusal *model.Refusal) {
	required, preferred := t.parts(room)
	if len(preferred) > 0 && t.placeParts(slices.Concat(preferred, required), nil, room) {
		return true, nil
	}
	if len(required) == 0 {
		return false, nil
	}
	t.tries = 0
	if t.placeParts(required, nil, room) {
		return true, nil
	}
	for i := range required {
		if refusal = t.noDomain(&required[i]); refusal != nil {
			return false, refusal
		}
	}
	return false, nil
}

// parts returns the parts of the job: those that must share a domain, and those that prefer to. The levels with the most domains
// come first: members that share a rack share the block, too.
func (t *Placer) parts(room model.CapacityKind) (required, preferred []part) {
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		if t.session.Domains(shared.Level) == nil || t.session.SharedDomain(t.job, shared) >= 0 {
			continue
		}
		p := part{shared: shared, members: map[equivalenceClass]bool{}, levels: t.session.LevelsUpTo(shared.Level)}
		for _, task := range t.members {
			if shared.Covers(task) {
				p.members[t.kinds.of(task)] = true
			}
		}
		if p.shapes = t.shapesOf(p.members, room); len(p.shapes) == 0 {
			continue
		}
		p.needs = max(t.minimumOf(func(task *model.Task) bool { return p.members[t.kinds.of(task)] }), t.minimumOfRoles(shared.Roles))
		if shared.Preferred {
			p.levels = append(p.levels, t.session.LevelsAbove(shared.Level)...)
			preferred = append(preferred, p)
		} else {
			required = append(required, p)
		}
	}
	byDomains := func(a, b part) int {
		return cmp.Compare(t.session.Domains(b.shared.Level).Len(), t.session.Domains(a.shared.Level).Len())
	}
	slices.SortStableFunc(required, byDomains)
	slices.SortStableFunc(preferred, byDomains)
	return required, preferred
}

// shapesOf returns the waiting members of those kinds by shape, in their order.
func (t *Placer) shapesOf(kinds map[equivalenceClass]bool, room model.CapacityKind) (shapes []shapeOfPart) {
	seen := map[equivalenceClass]bool{}
	for _, task := range t.members {
		of := t.kinds.of(task)
		if !kinds[of] {
			continue
		}
		i := slices.IndexFunc(shapes, func(one shapeOfPart) bool { return one.tasks[0].Shape == task.Shape })
		if i < 0 {
			i = len(shapes)
			shapes = append(shapes, shapeOfPart{needs: t.minimumOf(func(other *model.Task) bool {
				return other.Shape == task.Shape && kinds[t.kinds.of(other)]
			})})
		}
		if shapes[i].exists++; !seen[of] {
			seen[of] = true
			shapes[i].tasks = append(shapes[i].tasks, task)
		}
	}
	for i := range shapes {
		shapes[i].fits = make([]int64, len(t.session.Snapshot.Nodes))
		for _, node := range t.session.EligibleNodes(shapes[i].tasks[0]) {
			shapes[i].fits[node.Index] = capacityFor(shapes[i].tasks, []*model.Node{node}, room)
		}
	}
	return shapes
}

// placeParts tries the sets of domains of the parts, within those that were chosen before. Every choice counts against the limit.
func (t *Placer) placeParts(parts []part, chosen []topologyDomain, room model.CapacityKind) bool {
	if len(parts) == 0 {
		return t.placeInDomain(chosen, room)
	}
	p := &parts[0]
	try := func(nodes []bool) bool {
		t.tries++
		return t.placeParts(parts[1:], append(slices.Clip(chosen), topologyDomain{of: p.members, nodes: nodes}), room)
	}
	for i, level := range p.levels {
		for _, set := range t.domainSets(p, level, chosen, room) {
			if t.exhausted() {
				t.incomplete = true
				return false
			}
			set.nodes = t.nodesOf(level, set.domain, p, chosen)
			if few := t.fewestBelow(p, p.levels[:i], set.nodes); few != nil && try(few) || try(set.nodes) {
				return true
			}
		}
	}
	if p.needs == 0 && len(parts)+len(chosen) > 1 && t.placeParts(parts[1:], chosen, room) {
		return true // without any of its members
	}
	if !p.shared.Preferred || t.exhausted() {
		return false
	}
	few := t.fewestBelow(p, p.levels, t.nodesOf(nil, 0, p, chosen))
	return few != nil && try(few)
}

// domainSets returns the domains of a level that have capacity for the part, the best first: those with capacity for most of the
// members that exist; where fewest whole domains are broken; with least capacity left; with the best node for the first member; in
// order.
func (t *Placer) domainSets(p *part, level *framework.Domains, chosen []topologyDomain, room model.CapacityKind) []domainSet {
	t.charge(len(t.session.Snapshot.Nodes) / domainDiscount)
	sets := slices.DeleteFunc(t.capacities(p, level, chosen), func(set domainSet) bool { return !set.suffices })
	if len(sets) == 0 {
		return nil
	}
	whole := t.session.WholeDomains(level)
	for i := range sets {
		sets[i].broken = whole[sets[i].domain]
	}
	slices.SortStableFunc(sets, domainSet.compare)
	t.preferBestNode(p, level, sets, room)
	return sets
}

// capacities returns what fits into each domain of a level, by its number.
func (t *Placer) capacities(p *part, level *framework.Domains, chosen []topologyDomain) []domainSet {
	inside := t.nodesOf(nil, 0, p, chosen)
	sets := make([]domainSet, level.Len())
	for i := range sets {
		sets[i].domain, sets[i].suffices = i, true
	}
	for i := range p.shapes {
		one := &p.shapes[i]
		for domain, fits := range t.sum(one, level, inside) {
			set := &sets[domain]
			set.suffices = set.suffices && fits >= one.needs
			set.fits += min(fits, one.exists)
			set.left += max(0, fits-one.exists)
		}
	}
	for i := range sets {
		sets[i].suffices = sets[i].suffices && sets[i].fits >= p.needs
	}
	return sets
}

func (s domainSet) compare(other domainSet) int {
	return cmp.Or(cmp.Compare(other.fits, s.fits), slices.Compare(s.broken, other.broken), cmp.Compare(s.left, other.left))
}

// preferBestNode moves to the front the set that has the best node for the first member, of those that are as good as the first.
func (t *Placer) preferBestNode(p *part, level *framework.Domains, sets []domainSet, room model.CapacityKind) {
	equal := make([]bool, level.Len())
	n := 0
	for ; n < len(sets) && sets[n].compare(sets[0]) == 0; n++ {
		equal[sets[n].domain] = true
	}
	if n < 2 {
		return
	}
	node, _ := t.session.SelectNode(p.shapes[0].tasks[0], room, func(node *model.Node) bool {
		in := level.Of(node)
		return in >= 0 && equal[in]
	})
	if node == nil {
		return
	}
	at := slices.IndexFunc(sets, func(set domainSet) bool { return set.domain == level.Of(node) })
	best := sets[at]
	copy(sets[1:at+1], sets[:at])
	sets[0] = best
}

// fewestBelow returns those of the nodes that are in as few domains of each of the levels as suffice for the minimum, from the
// widest level on. levels are the narrowest first. It returns nil where that is of no use: there is none, or several shapes need
// capacity.
func (t *Placer) fewestBelow(p *part, levels []*framework.Domains, nodes []bool) (few []bool) {
	if len(p.shapes) > 1 {
		return nil
	}
	one := &p.shapes[0]
	for _, level := range slices.Backward(levels) {
		taken := fewest(t.sum(one, level, nodes), max(1, p.needs))
		if taken == nil {
			return few
		}
		few = make([]bool, len(nodes))
		for i, node := range t.session.Snapshot.Nodes {
			domain := level.Of(node)
			few[i] = nodes[i] && domain >= 0 && taken[domain]
		}
		nodes = few
	}
	return few
}

// fewest returns as few domains as have capacity for the number: the roomiest, and for what is left of it the one with the least
// capacity that suffices. It returns nil when all together do not have it.
func fewest(fits []int64, needs int64) (taken []bool) {
	roomiest := make([]int, len(fits))
	for i := range roomiest {
		roomiest[i] = i
	}
	slices.SortStableFunc(roomiest, func(a, b int) int { return cmp.Compare(fits[b], fits[a]) })
	taken = make([]bool, len(fits))
	for i, domain := range roomiest {
		if fits[domain] < needs {
			taken[domain] = true
			needs -= fits[domain]
			continue
		}
		last := domain
		for _, smaller := range roomiest[i+1:] {
			if fits[smaller] >= needs && fits[smaller] < fits[last] {
				last = smaller
			}
		}
		taken[last] = true
		return taken
	}
	return nil
}

// sum returns how many members of a shape fit on those of the nodes that are in each domain of a level.
func (t *Placer) sum(one *shapeOfPart, level *framework.Domains, nodes []bool) []int64 {
	fits := make([]int64, level.Len())
	for i, node := range t.session.Snapshot.Nodes {
		if domain := level.Of(node); domain >= 0 && nodes[i] {
			fits[domain] = min(fits[domain]+one.fits[i], model.MaxAmount)
		}
	}
	return fits
}

// nodesOf returns the nodes of a domain, of all where the level is nil, that are in the domains which were chosen for the part.
func (t *Placer) nodesOf(level *framework.Domains, domain int, p *part, chosen []topologyDomain) []bool {
	inside := t.nodeCondition(chosen, p.shapes[0].tasks[0])
	in := make([]bool, len(t.session.Snapshot.Nodes))
	for i, node := range t.session.Snapshot.Nodes {
		in[i] = (level == nil || level.Of(node) == domain) && (inside == nil || inside(node))
	}
	return in
}

// noDomain says which domains come nearest to what a part needs; nil when one has enough by numbers, so that something else keeps
// its members out.
func (t *Placer) noDomain(p *part) *model.Refusal {
	level := t.session.Domains(p.shared.Level)
	sets := t.capacities(p, level, nil)
	if p.needs == 0 || slices.ContainsFunc(sets, func(set domainSet) bool { return set.suffices }) {
		return nil
	}
	slices.SortStableFunc(sets, func(a, b domainSet) int { return cmp.Compare(b.fits, a.fits) })
	var total int64
	for _, set := range sets {
		total = min(total+set.fits+set.left, model.MaxAmount)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "needs %d in one %s", p.needs, level.Level)
	if roles := p.shared.Roles; roles != nil {
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
	if total >= p.needs {
		fmt.Fprintf(&b, "; all together for %d", total)
	}
	if none := level.Unlabelled(); none > 0 {
		fmt.Fprintf(&b, "; nodes without a label of this level: %d", none)
	}
	refusal := &model.Refusal{Code: model.NoDomainFits, Detail: b.String(), Needs: p.needs, Evictable: true}
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
