package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// A job may say that its members share a domain of a level: a rack, a block. Filters keep members in the domain of those that
// have a node; here a domain is chosen for those of which none has. It is chosen by numbers alone, from how many members fit on
// each node. For members of one shape these decide: where they allow none, there is none.

// levelTie is members that share a domain of one level, of which none has a node.
type levelTie struct {
	shared *model.TopologyConstraint
	// mayPart reports that they may be in several domains if none has capacity for them.
	mayPart bool
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
	// slices are the levels of the slices that all of them are in; nil where they are in none, or in slices with others.
	slices []cellLevel
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
// from the search for the others. The refusal says what is lacking; possible reports that there is a domain for each tie and slice
// by numbers, so that members may start in another way.
func (t *Placer) placeByTopology(room model.CapacityKind) (placed, possible bool, refusal *model.Refusal) {
	if refusal = t.invalidSlices(); refusal != nil {
		return false, false, refusal
	}
	required, preferred, settled := t.ties(room)
	sliced := t.slicedOf(room)
	until := t.awaited(required)
	budget := t.budget
	if len(preferred) > 0 && t.placeTied(slices.Concat(preferred, required), settled, room) {
		return true, true, nil
	}
	t.tries, t.budget, t.incomplete = 0, budget, false
	if len(required)+len(sliced) == 0 {
		return false, true, nil
	}
	if t.placeTied(required, settled, room) {
		return true, true, nil
	}
	defer func() {
		if !placed && !until.IsZero() {
			possible, refusal = false, t.waitsFor(refusal, until)
		}
	}()
	for i := range required {
		if refusal = t.noDomain(&required[i], settled); refusal != nil {
			return false, false, refusal
		}
	}
	for i := range sliced {
		if refusal = t.noSlices(&sliced[i], settled, room); refusal != nil {
			return false, false, refusal
		}
	}
	refusal = &model.Refusal{
		Code: model.NoDomainFits, Needs: int64(t.job.MinMember), Evictable: true,
		Detail: "each level of its topology has a domain with capacity for the members that share it; no choice of these domains has a place for all of them",
	}
	return false, true, refusal
}

// triedAll reports whether every choice of domains was tried, or numbers decide, so that the job cannot start at all.
func (t *Placer) triedAll(room model.CapacityKind) bool {
	switch {
	case t.incomplete, !t.hasBudget():
		return false
	case len(t.members) <= exactMembers:
		return true
	}
	required, _, _ := t.ties(room)
	for i := range required {
		for j := range required[:i] {
			if !maps.Equal(required[i].members, required[j].members) && !t.nested(required[i].shared.Level, required[j].shared.Level) {
				return false // members of one shape in domains that cross each other
			}
		}
	}
	return sameShape(t.members) && !slices.ContainsFunc(t.members, constrainsSiblings) && !slices.ContainsFunc(t.members, hasOwnStorage)
}

// nested reports whether two levels are of one tree.
func (t *Placer) nested(a, b string) bool {
	is := func(level *framework.Domains) bool { return level.Level == b }
	return slices.ContainsFunc(t.session.LevelsUpTo(a), is) || slices.ContainsFunc(t.session.LevelsAbove(a), is)
}

// ties returns the ties of the job: those that must share a domain, and those that prefer to; and the domains of those whose other
// members have a node. The levels with the most domains come last: a rack is looked for in the block that was chosen.
func (t *Placer) ties(room model.CapacityKind) (required, preferred []levelTie, settled []topologyDomain) {
	sliced := t.slicedOf(room)
	for i := range t.job.Topology {
		shared := &t.job.Topology[i]
		if shared.SliceSize > 0 || t.session.Domains(shared.Level) == nil {
			continue
		}
		tie := levelTie{shared: shared, members: t.membersOf(shared.Covers), levels: t.session.LevelsUpTo(shared.Level)}
		if at := t.session.SharedDomain(t.job, shared, 0); at >= 0 {
			if !shared.Preferred {
				settled = append(settled, t.within(tie.members, t.session.Domains(shared.Level).Nodes(at)))
			}
			if t.session.Confined(shared) < 0 {
				continue
			}
		}
		if tie.shapes = t.shapesOf(tie.members, sliced, room); len(tie.shapes) == 0 {
			continue
		}
		tie.needs = max(t.minimumOf(func(task *model.Task) bool { return tie.members[t.kinds.of(task)] }), t.minimumOfRoles(shared.Roles))
		if shared.Preferred && !t.session.Snapshot.Now.Before(waitsUntil(t.job, shared)) {
			tie.levels, tie.mayPart = append(tie.levels, t.session.LevelsAbove(shared.Level)...), true
			preferred = append(preferred, tie)
		} else {
			required = append(required, tie)
		}
	}
	for i := range sliced {
		if tie := t.nearSlices(&sliced[i], sliced, room); tie != nil {
			preferred = append(preferred, *tie)
		}
	}
	byDomains := func(a, b levelTie) int {
		return cmp.Compare(t.session.Domains(a.shared.Level).Len(), t.session.Domains(b.shared.Level).Len())
	}
	slices.SortStableFunc(required, byDomains)
	slices.SortStableFunc(preferred, byDomains)
	return required, preferred, settled
}

// waitsUntil returns until when a job waits for a domain that it prefers; zero when it does not.
func waitsUntil(job *model.Job, shared *model.TopologyConstraint) (at time.Time) {
	if shared.WaitSeconds == 0 {
		return at
	}
	return job.QueuedSince.Add(time.Duration(shared.WaitSeconds) * time.Second)
}

// awaited returns until when the job waits for domains that it prefers, the soonest of several times; zero when it does not.
func (t *Placer) awaited(required []levelTie) (until time.Time) {
	for i := range required {
		if at := waitsUntil(t.job, required[i].shared); !at.IsZero() && (until.IsZero() || at.Before(until)) {
			until = at
		}
	}
	if !until.IsZero() {
		t.session.WaitUntil(until)
	}
	return until
}

// waitsFor adds to a refusal until when the job waits. No pod is evicted and no capacity reserved for what it only prefers.
func (t *Placer) waitsFor(refusal *model.Refusal, until time.Time) *model.Refusal {
	waits := refusal.WithNote(fmt.Sprintf("it prefers that, and waits for it until %s", until.UTC().Format(time.RFC3339)))
	waits.Code, waits.Evictable = model.WaitingForDomain, false
	return waits
}

// nearSlices ties slices that no other entry keeps together to the level above their own, as if they preferred that; nil where
// there is none.
func (t *Placer) nearSlices(m *slicedMembers, all []slicedMembers, room model.CapacityKind) *levelTie {
	above := t.session.LevelsAbove(m.entries[0].shared.Level)
	for i := range t.job.Topology {
		if shared := &t.job.Topology[i]; shared.SliceSize == 0 && slices.ContainsFunc(m.tasks, shared.Covers) {
			return nil
		}
	}
	if len(above) == 0 || !m.regular {
		return nil
	}
	tie := &levelTie{
		shared: &model.TopologyConstraint{Level: above[0].Level, Preferred: true}, mayPart: true, levels: above, needs: int64(len(m.tasks)),
		members: t.membersOf(func(task *model.Task) bool { return slices.Contains(m.tasks, task) }),
	}
	tie.shapes = t.shapesOf(tie.members, all, room)
	return tie
}

// membersOf returns the kinds of the waiting members for which a condition holds.
func (t *Placer) membersOf(is func(*model.Task) bool) map[equivalenceClass]bool {
	kinds := map[equivalenceClass]bool{}
	for _, task := range t.members {
		if is(task) {
			kinds[t.kinds.of(task)] = true
		}
	}
	return kinds
}

// within returns the domain of these nodes for those kinds of members.
func (t *Placer) within(members map[equivalenceClass]bool, list []int) topologyDomain {
	d := topologyDomain{of: members, nodes: make([]bool, len(t.session.Snapshot.Nodes)), list: list}
	for _, node := range list {
		d.nodes[node] = true
	}
	return d
}

// shapesOf returns the waiting members of those kinds by shape, in their order. sliced are all members in slices.
func (t *Placer) shapesOf(kinds map[equivalenceClass]bool, sliced []slicedMembers, room model.CapacityKind) (shapes []tiedShape) {
	seen := map[equivalenceClass]bool{}
	for _, task := range t.members {
		of := t.kinds.of(task)
		if !kinds[of] {
			continue
		}
		i := slices.IndexFunc(shapes, func(one tiedShape) bool { return countsAlike(one.tasks[0], task) })
		if i < 0 {
			i = len(shapes)
			shapes = append(shapes, tiedShape{needs: t.minimumOf(func(other *model.Task) bool {
				return countsAlike(task, other) && kinds[t.kinds.of(other)]
			})})
		}
		if shapes[i].exists++; !seen[of] {
			seen[of] = true
			shapes[i].tasks = append(shapes[i].tasks, task)
		}
	}
	for i := range shapes {
		shapes[i].fits, shapes[i].table = t.fits(shapes[i].tasks, room)
		shapes[i].slices = t.slicesOf(&shapes[i], kinds, sliced, room)
	}
	return shapes
}

// countsAlike reports whether two members are counted together: they have one shape, or volumes or claims of their own and the same
// request. Of the latter the nodes that they may use are not known by numbers.
func countsAlike(a, b *model.Task) bool {
	return a.Shape == b.Shape || hasOwnStorage(a) && hasOwnStorage(b) && a.Request.Equal(b.Request)
}

// fits returns how many members of one shape fit on each node, of which tasks are one of each kind. table has the same by domain, and
// is nil where they keep apart from each other.
func (t *Placer) fits(tasks []*model.Task, room model.CapacityKind) (each []int32, table *framework.Fits) {
	if len(hostPorts(tasks[0].Pod.Spec.Containers)) == 0 && len(mutualAntiAffinityKeys(tasks)) == 0 && !hasOwnStorage(tasks[0]) {
		table = t.session.Fits(tasks[0], room)
		return table.Each(), table
	}
	each = make([]int32, len(t.session.Snapshot.Nodes))
	eligible := t.session.EligibleNodes(tasks[0])
	if hasOwnStorage(tasks[0]) {
		eligible = t.session.Snapshot.Nodes
	}
	for _, node := range eligible {
		each[node.Index] = int32(min(capacityFor(tasks, []*model.Node{node}, room), math.MaxInt32))
	}
	return each, nil
}

// placeTied tries the sets of domains of the ties, within those that were chosen before. Every choice counts against the limit.
func (t *Placer) placeTied(ties []levelTie, chosen []topologyDomain, room model.CapacityKind) bool {
	if len(ties) == 0 {
		return t.placeInRankOrder(room, func() bool { return t.placeChosen(chosen, room) })
	}
	if packed, possible := t.placePacked(ties, chosen, room); packed || !possible {
		return packed
	}
	tie := &ties[0]
	try := func(list []int) bool {
		t.tries++
		return t.placeTied(ties[1:], append(slices.Clip(chosen), t.within(tie.members, list)), room)
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
	if !tie.mayPart || t.exhausted() {
		return false
	}
	few := t.fewestBelow(tie, tie.levels, t.inside(t.everywhere(), tie, chosen))
	return few != nil && try(few)
}

// placeChosen tries to start in the domains that were chosen.
func (t *Placer) placeChosen(chosen []topologyDomain, room model.CapacityKind) bool {
	if len(t.slicedOf(room)) > 0 {
		return t.placeSliced(chosen, room)
	}
	return t.placeInDomain(chosen, room)
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
	if one.table != nil && len(chosen) == 0 && one.slices == nil {
		return one.table.In(level)
	}
	return sumOver(one, level, t.session.Snapshot.Nodes, t.inside(t.everywhere(), tie, chosen))
}

// sumOver returns how many members of a shape fit into each domain of a level, on the nodes of the list, in their slices.
func sumOver(one *tiedShape, level *framework.Domains, nodes []*model.Node, list []int) []int64 {
	fits := make([]int64, level.Len())
	if one.slices != nil {
		for _, part := range divided(func(node int) int { return level.Of(nodes[node]) }, one.fits, list) {
			fits[level.Of(nodes[part[0]])] = newCell(one.slices, one.fits, part).holds
		}
		return fits
	}
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
	var tasks []*model.Task
	for i := range tie.shapes {
		tasks = append(tasks, tie.shapes[i].tasks...)
	}
	return t.insideFor(list, tasks, chosen)
}

// insideFor returns those of the nodes that are in the domains which were chosen for any of the tasks.
func (t *Placer) insideFor(list []int, tasks []*model.Task, chosen []topologyDomain) []int {
	var conditions []func(*model.Node) bool
	for _, task := range tasks {
		condition := t.nodeCondition(chosen, task)
		if condition == nil {
			return list
		}
		conditions = append(conditions, condition)
	}
	return slices.DeleteFunc(slices.Clone(list), func(node int) bool {
		return !slices.ContainsFunc(conditions, func(is func(*model.Node) bool) bool { return is(t.session.Snapshot.Nodes[node]) })
	})
}
