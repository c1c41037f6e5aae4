package placement

import (
	"cmp"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A job may say that its members share a domain of a level: a rack, a block. Filters keep members in the domain of those that
// have a node; here a domain is chosen for those of which none has. It is chosen by numbers alone, from how many members fit on
// each node. For members of one shape these decide: where they allow none, there is none.

// levelTie is members that share a domain of one level, of which none has a node.
type levelTie struct {
	shared *model.TopologyConstraint
	// levels are those whose domains are tried, the narrowest first: up to that of the tie, and beyond a preferred one.
	levels []*framework.Domains
	// members are the kinds of the members.
	members map[equivalenceClass]bool
	// needs is how many of them the minimum needs at least.
	needs  int64
	shapes []tiedShape
}

// tiedShape is the waiting members of a tie that have one shape.
type tiedShape struct {
	// tasks are one of each kind.
	tasks []*model.Task
	// needs is how many the minimum needs at least, exists how many there are.
	needs, exists int64
	// fits is how many fit on each node, by its index; table has the same by domain, nil where they keep apart from each other.
	fits  []int32
	table *framework.Fits
}

// noneOfDomain is the refusal of a member in one of the domains that are tried, which is not reported.
var noneOfDomain = &model.Refusal{Code: model.NoDomainFits, Evictable: true}

// domainSet is a domain in which a tie may be placed.
type domainSet struct {
	// domain is its number.
	domain int
	// suffices reports whether it has capacity for what the minimum needs at least.
	suffices bool
	// fits is how many of the existing members fit; broken how many of the domains around it are whole, itself included, by level
	// from the widest; left for how many more there is capacity.
	fits   int64
	broken []int
	left   int64
}

// placeByTopology tries to start the job in domains that its ties share: first in those that they prefer, which takes nothing
// from the search for the others. The refusal says what is lacking; possible reports that each tie has a domain by numbers, so
// that members may start in another way.
func (t *Placer) placeByTopology(room model.CapacityKind) (placed, possible bool, refusal *model.Refusal) {
	required, preferred := t.ties(room)
	within := t.confinement(required)
	budget := t.budget
	if len(preferred) > 0 && t.placeTied(slices.Concat(preferred, required), within, room) {
		return true, true, nil
	}
	t.tries, t.budget, t.incomplete = 0, budget, false
	if len(required) == 0 {
		return false, true, nil
	}
	if t.placeTied(required, within, room) {
		return true, true, nil
	}
	for i := range required {
		if refusal = t.noDomain(&required[i], within); refusal != nil {
			return false, false, refusal
		}
	}
	refusal = &model.Refusal{
		Code: model.NoDomainFits, Needs: int64(t.job.MinMember), Evictable: true,
		Detail: "each level of its topology has a domain with capacity for the members that share it; no choice of these domains has a place for all of them",
	}
	if t.incomplete {
		refusal.Note = "not all possibilities were tried"
	}
	return false, true, refusal
}

// ties returns the ties of the job: those that must share a domain, and those that prefer to. The levels with the most domains
// come last: a rack is looked for in the block that was chosen.
func (t *Placer) ties(room model.CapacityKind) (required, preferred []levelTie) {
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		if t.session.Domains(shared.Level) == nil || t.session.SharedDomain(t.job, shared) >= 0 && t.session.Confined(shared) < 0 {
			continue
		}
		tie := levelTie{shared: shared, members: map[equivalenceClass]bool{}, levels: t.session.LevelsUpTo(shared.Level)}
		for _, task := range t.members {
			if shared.Covers(task) {
				tie.members[t.kinds.of(task)] = true
			}
		}
		if tie.shapes = t.shapesOf(tie.members, room); len(tie.shapes) == 0 {
			continue
		}
		tie.needs = max(t.minimumOf(func(task *model.Task) bool { return tie.members[t.kinds.of(task)] }), t.minimumOfRoles(shared.Roles))
		if shared.Preferred {
			tie.levels = append(tie.levels, t.session.LevelsAbove(shared.Level)...)
			preferred = append(preferred, tie)
		} else {
			required = append(required, tie)
		}
	}
	byDomains := func(a, b levelTie) int {
		return cmp.Compare(t.session.Domains(a.shared.Level).Len(), t.session.Domains(b.shared.Level).Len())
	}
	slices.SortStableFunc(required, byDomains)
	slices.SortStableFunc(preferred, byDomains)
	return required, preferred
}

// shapesOf returns the waiting members of those kinds by shape, in their order.
func (t *Placer) shapesOf(kinds map[equivalenceClass]bool, room model.CapacityKind) (shapes []tiedShape) {
	seen := map[equivalenceClass]bool{}
	for _, task := range t.members {
		of := t.kinds.of(task)
		if !kinds[of] {
			continue
		}
		i := slices.IndexFunc(shapes, func(one tiedShape) bool { return one.tasks[0].Shape == task.Shape })
		if i < 0 {
			i = len(shapes)
			shapes = append(shapes, tiedShape{needs: t.minimumOf(func(other *model.Task) bool {
				return other.Shape == task.Shape && kinds[t.kinds.of(other)]
			})})
		}
		if shapes[i].exists++; !seen[of] {
			seen[of] = true
			shapes[i].tasks = append(shapes[i].tasks, task)
		}
	}
	for i := range shapes {
		one := &shapes[i]
		if len(hostPorts(one.tasks[0].Pod.Spec.Containers)) == 0 && len(mutualAntiAffinityKeys(one.tasks)) == 0 {
			one.table = t.session.Fits(one.tasks[0], room)
			one.fits = one.table.Each()
			continue
		}
		one.fits = make([]int32, len(t.session.Snapshot.Nodes))
		for _, node := range t.session.EligibleNodes(one.tasks[0]) {
			one.fits[node.Index] = int32(min(capacityFor(one.tasks, []*model.Node{node}, room), math.MaxInt32))
		}
	}
	return shapes
}

// placeTied tries the sets of domains of the ties, within those that were chosen before. Every choice counts against the limit.
func (t *Placer) placeTied(ties []levelTie, chosen []topologyDomain, room model.CapacityKind) bool {
	if len(ties) == 0 {
		return t.placeInDomain(chosen, room)
	}
	tie := &ties[0]
	try := func(list []int) bool {
		t.tries++
		return t.placeTied(ties[1:], append(slices.Clip(chosen), t.listed(tie.members, list)), room)
	}
	for i, level := range tie.levels {
		for _, set := range t.domainSets(tie, level, chosen, room) {
			if t.exhausted() {
				t.incomplete = true
				return false
			}
			all := t.inside(level.Nodes(set.domain), tie, chosen)
			if few := t.fewestBelow(tie, tie.levels[:i], all); few != nil && try(few) || try(all) {
				return true
			}
		}
	}
	if tie.needs == 0 && len(ties)+len(chosen) > 1 && t.placeTied(ties[1:], chosen, room) {
		return true // without any of its members
	}
	if !tie.shared.Preferred || t.exhausted() {
		return false
	}
	few := t.fewestBelow(tie, tie.levels, t.inside(t.everywhere(), tie, chosen))
	return few != nil && try(few)
}

// domainSets returns the domains of a level that have capacity for the tie, the best first: those with capacity for most of the
// members that exist; where fewest whole domains are broken; with least capacity left; with the best node for the first member;
// in order.
func (t *Placer) domainSets(tie *levelTie, level *framework.Domains, chosen []topologyDomain, room model.CapacityKind) []domainSet {
	t.charge(len(t.session.Snapshot.Nodes) / domainDiscount)
	sets := slices.DeleteFunc(t.capacities(tie, level, chosen), func(set domainSet) bool { return !set.suffices })
	if len(sets) == 0 {
		return nil
	}
	for i := range sets {
		sets[i].broken = t.session.Whole(level, sets[i].domain)
	}
	slices.SortStableFunc(sets, domainSet.compare)
	t.preferBestNode(tie, level, sets, room)
	return sets
}

// capacities returns what fits into each domain of a level, by its number.
func (t *Placer) capacities(tie *levelTie, level *framework.Domains, chosen []topologyDomain) []domainSet {
	sets := make([]domainSet, level.Len())
	for i := range sets {
		sets[i].domain, sets[i].suffices = i, true
	}
	for i := range tie.shapes {
		one := &tie.shapes[i]
		for domain, fits := range t.sum(one, level, tie, chosen) {
			set := &sets[domain]
			set.suffices = set.suffices && fits >= one.needs
			set.fits += min(fits, one.exists)
			set.left += max(0, fits-one.exists)
		}
	}
	for i := range sets {
		sets[i].suffices = sets[i].suffices && sets[i].fits >= tie.needs
	}
	return sets
}

func (s domainSet) compare(other domainSet) int {
	return cmp.Or(cmp.Compare(other.fits, s.fits), slices.Compare(s.broken, other.broken), cmp.Compare(s.left, other.left))
}

// preferBestNode moves to the front the set that has the best node for the first member, of those that are as good as the first.
func (t *Placer) preferBestNode(tie *levelTie, level *framework.Domains, sets []domainSet, room model.CapacityKind) {
	var list []int
	n := 0
	for ; n < len(sets) && sets[n].compare(sets[0]) == 0; n++ {
		list = append(list, level.Nodes(sets[n].domain)...)
	}
	if n < 2 {
		return
	}
	slices.Sort(list)
	node := t.session.SelectAmong(tie.shapes[0].tasks[0], room, list)
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
func (t *Placer) fewestBelow(tie *levelTie, levels []*framework.Domains, nodes []int) (few []int) {
	if len(tie.shapes) > 1 {
		return nil
	}
	for _, level := range slices.Backward(levels) {
		taken := fewest(sumOver(&tie.shapes[0], level, t.session.Snapshot.Nodes, nodes), max(1, tie.needs))
		if taken == nil {
			return few
		}
		few = slices.DeleteFunc(slices.Clone(nodes), func(node int) bool {
			domain := level.Of(t.session.Snapshot.Nodes[node])
			return domain < 0 || !taken[domain]
		})
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

// sum returns how many members of a shape fit into each domain of a level, inside the domains that were chosen.
func (t *Placer) sum(one *tiedShape, level *framework.Domains, tie *levelTie, chosen []topologyDomain) []int64 {
	if one.table != nil && len(chosen) == 0 {
		return one.table.In(level)
	}
	return sumOver(one, level, t.session.Snapshot.Nodes, t.inside(t.everywhere(), tie, chosen))
}

// sumOver returns how many members of a shape fit into each domain of a level, on the nodes of the list.
func sumOver(one *tiedShape, level *framework.Domains, nodes []*model.Node, list []int) []int64 {
	fits := make([]int64, level.Len())
	for _, node := range list {
		if domain := level.Of(nodes[node]); domain >= 0 {
			fits[domain] += int64(one.fits[node])
		}
	}
	return fits
}

func (t *Placer) everywhere() []int {
	all := make([]int, len(t.session.Snapshot.Nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

// inside returns those of the nodes that are in the domains which were chosen for the members of the tie.
func (t *Placer) inside(list []int, tie *levelTie, chosen []topologyDomain) []int {
	var conditions []func(*model.Node) bool
	for i := range tie.shapes {
		for _, task := range tie.shapes[i].tasks {
			condition := t.nodeCondition(chosen, task)
			if condition == nil {
				return list
			}
			conditions = append(conditions, condition)
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(node int) bool {
		return !slices.ContainsFunc(conditions, func(is func(*model.Node) bool) bool { return is(t.session.Snapshot.Nodes[node]) })
	})
}
