package preempt

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file finds a lower bound of what victims in one domain cost, by numbers alone: how many members of a shape would fit on
// each node without the pods up to a priority, and how many pods have to leave for that at least.
//
// Invariant: no plan by which the job starts in the domain costs less.

// domainNeed is members of one shape that need places in a domain.
type domainNeed struct {
	request model.Resources
	// positions are those of what is requested, members how many need a place.
	positions []int
	members   int64
	// eligible are by the node's index.
	eligible []bool
}

// nodeSupply is a node of a domain, with what is free on it by the positions of a need.
type nodeSupply struct {
	free []int64
	// victims have the lowest priorities first.
	victims []domainVictim
}

// domainNeeds returns what the members need, by shape.
func (s *search) domainNeeds() (needs []domainNeed) {
	for _, shape := range s.trial.Needs() {
		need := domainNeed{request: shape.Task.Request, members: shape.Members, eligible: make([]bool, len(s.session.Snapshot.Nodes))}
		for position, amount := range need.request {
			if amount > 0 {
				need.positions = append(need.positions, position)
			}
		}
		for _, node := range s.session.EligibleNodes(shape.Task) {
			need.eligible[node.Index] = true
		}
		needs = append(needs, need)
	}
	return needs
}

// leastCost returns the bound for a domain with these nodes; starts is false where the members would not fit if all victims left.
func (s *search) leastCost(in *domainVictims, nodes []int, needs []domainNeed) (least cost, starts bool) {
	victims := slices.SortedFunc(slices.Values(in.victims), func(a, b domainVictim) int {
		return cmp.Or(cmp.Compare(a.node.Index, b.node.Index), cmp.Compare(a.priority, b.priority))
	})
	for i := range needs {
		bound := domainBound{domainNeed: &needs[i], victims: victims}
		bound.supply(s.ask, nodes)
		costs, starts := bound.least(s.claim != nil)
		if !starts {
			return cost{}, false
		}
		if i == 0 || costs.compare(&least) > 0 {
			least = costs
		}
	}
	return least, true
}

// domainBound is the bound for members of one shape.
type domainBound struct {
	*domainNeed
	nodes []nodeSupply
	// victims are all of the domain.
	victims []domainVictim
}

// supply lists the nodes that can have members.
func (b *domainBound) supply(ask engine.Ask, nodes []int) {
	free := make([]int64, 0, len(nodes)*len(b.positions))
	next := 0
	for _, index := range nodes {
		node, first := ask.Session().Snapshot.Nodes[index], next
		for next < len(b.victims) && b.victims[next].node == node {
			next++
		}
		if !b.eligible[index] {
			continue
		}
		left := ask.Free(node)
		for _, position := range b.positions {
			free = append(free, left.Of(position))
		}
		b.nodes = append(b.nodes, nodeSupply{free: free[len(free)-len(b.positions):], victims: b.victims[first:next]})
	}
}

// least returns the bound; starts is false where not all would fit.
func (b *domainBound) least(claimed bool) (least cost, starts bool) {
	if b.fitWithout(nil) >= b.members {
		return cost{}, true
	}
	priorities := make([]int32, len(b.victims))
	for i := range b.victims {
		priorities[i] = b.victims[i].priority
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	at := sort.Search(len(priorities), func(i int) bool { return b.fitWithout(&priorities[i]) >= b.members })
	if at == len(priorities) {
		return cost{}, false
	}
	least.highest = priorities[at]
	above := b.leastAbove(priorities[:at+1])
	leave := func(victim domainVictim) bool { return victim.priority <= least.highest }
	least.pods = int(above[0])
	least.sum = b.leastSum(priorities[:at+1], above)
	least.brokenGangs = b.leastGangs(above[0], leave, func(from *victimJob) bool { return from.gang })
	least.grace, least.earliestStart = b.bestTimes(int(above[0]), int(above[at]), leave)
	if claimed {
		all := b.leastAbove(priorities)[0] // a plan of a lower price may have a higher priority
		least.price.Gangs = b.leastGangs(all, func(domainVictim) bool { return true }, func(from *victimJob) bool {
			return from.wholeOnly.cost.price.Gangs > 0
		})
		least.price.Rank = b.victims[0].from.wholeOnly.cost.price.Rank
		for i := range b.victims {
			least.price.Rank = min(least.price.Rank, b.victims[i].from.wholeOnly.cost.price.Rank)
		}
	}
	return least, true
}

// fits returns how many members fit into what is free, and no more than need a place.
func (b *domainBound) fits(free []int64) int64 {
	fits := b.members
	for i, position := range b.positions {
		fits = min(fits, max(0, free[i])/b.request.At(position))
	}
	return fits
}

// fitWithout returns how many members fit without the pods up to a priority; nil is with all pods.
func (b *domainBound) fitWithout(priority *int32) (sum int64) {
	free := make([]int64, len(b.positions))
	for i := range b.nodes {
		node := &b.nodes[i]
		copy(free, node.free)
		for j := 0; priority != nil && j < len(node.victims) && node.victims[j].priority <= *priority; j++ {
			b.release(free, &node.victims[j])
		}
		sum += b.fits(free)
	}
	return sum
}

func (b *domainBound) release(free []int64, victim *domainVictim) {
	for i, position := range b.positions {
		free[i] += victim.node.Charge(victim.task).At(position)
	}
}

// maxPrioritySteps is for how many priorities it is counted how many pods of them and above have to leave.
const maxPrioritySteps = 8

// leastAbove returns, by priority, how many pods of that priority and above have to leave at least, none above the last; for all
// but the highest priorities, and the lowest, it is what holds for a higher one.
func (b *domainBound) leastAbove(priorities []int32) []int64 {
	above := make([]int64, len(priorities))
	for i := len(priorities) - 1; i >= 0; i-- {
		if i < len(priorities)-1 {
			above[i] = above[i+1]
		}
		if i == 0 || i >= len(priorities)-maxPrioritySteps {
			above[i] = max(above[i], b.leastBetween(priorities[i], priorities[len(priorities)-1]))
		}
	}
	return above
}

// ratio is what one more member on a node costs at least, in parts of a pod, and for how many members.
type ratio struct{ parts, members int64 }

// podParts are so many parts of a pod.
const podParts = 1 << 20

// leastBetween returns how many pods of priorities from one to another have to leave at least, with all pods of lower ones.
func (b *domainBound) leastBetween(from, to int32) int64 {
	lack := b.members
	var ratios []ratio
	free, freed := make([]int64, len(b.positions)), make([][]int64, len(b.positions))
	for i := range b.nodes {
		node := &b.nodes[i]
		copy(free, node.free)
		first := 0
		for ; first < len(node.victims) && node.victims[first].priority < from; first++ {
			b.release(free, &node.victims[first])
		}
		last := first
		for last < len(node.victims) && node.victims[last].priority <= to {
			last++
		}
		lack -= b.fits(free)
		if one := b.cheapest(free, freed, node.victims[first:last]); one.members > 0 {
			ratios = append(ratios, one)
		}
	}
	slices.SortFunc(ratios, func(x, y ratio) int { return cmp.Compare(x.parts, y.parts) })
	parts := int64(0)
	for _, one := range ratios {
		if lack <= 0 {
			break
		}
		parts += one.parts * min(one.members, lack)
		lack -= one.members
	}
	return (parts + podParts - 1) / podParts
}

// cheapest returns the lowest cost of a member on a node: as if the pods that free most of a resource freed most of each. freed
// is space to work in.
func (b *domainBound) cheapest(free []int64, freed [][]int64, victims []domainVictim) (best ratio) {
	before := b.fits(free)
	for i, position := range b.positions {
		freed[i] = freed[i][:0]
		for j := range victims {
			freed[i] = append(freed[i], victims[j].node.Charge(victims[j].task).At(position))
		}
		slices.Sort(freed[i])
	}
	for n := 1; n <= len(victims); n++ {
		for i := range freed {
			free[i] += freed[i][len(victims)-n]
		}
		if more := b.fits(free) - before; more > best.members {
			if parts := int64(n) * podParts / more; best.members == 0 || parts < best.parts {
				best.parts = parts
			}
			best.members = more
		}
	}
	return best
}

// leastSum returns the least sum of priorities with which so many pods of each priority and above can leave.
func (b *domainBound) leastSum(priorities []int32, above []int64) int64 {
	sum := above[0] * weight(priorities[0])
	for i := 1; i < len(priorities); i++ {
		sum += above[i] * (int64(priorities[i]) - int64(priorities[i-1]))
	}
	for i := range b.victims { // members of a gang that goes as a whole count by their own priority
		if one := &b.victims[i]; one.from.job != nil && one.priority <= priorities[len(priorities)-1] {
			sum -= int64(one.priority) - int64(one.from.job.PriorityOf(one.task))
		}
	}
	return sum
}

// leastGangs returns how many gangs that count end at least when so many pods leave: the others go first, and single members.
func (b *domainBound) leastGangs(pods int64, leave func(domainVictim) bool, counts func(*victimJob) bool) (gangs int) {
	members, singles := map[*victimJob]int64{}, map[*victimJob]int64{}
	for i := range b.victims {
		one := &b.victims[i]
		switch {
		case !leave(*one):
		case !counts(one.from):
			pods--
		default:
			members[one.from]++
			if one.from.singles[one.task] && singles[one.from] < int64(one.from.surplus) {
				singles[one.from]++
				pods--
			}
		}
	}
	var sizes []int64
	for from, size := range members { // in any order: they are sorted
		if from.wholeUnit {
			sizes = append(sizes, size-singles[from])
		}
	}
	slices.Sort(sizes)
	for _, size := range slices.Backward(sizes) {
		if pods <= 0 {
			break
		}
		pods -= size
		gangs++
	}
	return gangs
}

// bestTimes returns the shortest grace with which so many pods end, and the latest start of so many of the highest priority.
func (b *domainBound) bestTimes(pods, highest int, leave func(domainVictim) bool) (grace int64, start time.Time) {
	var graces []int64
	var starts []time.Time
	for i := range b.victims {
		one := &b.victims[i]
		switch {
		case !leave(*one):
		case one.from.singles[one.task]:
			graces, starts = append(graces, one.task.GraceSeconds), append(starts, model.StartTime(one.task))
		default: // all of its gang goes with it
			all := &one.from.wholeOnly.cost
			graces, starts = append(graces, all.grace), append(starts, all.earliestStart)
		}
	}
	slices.Sort(graces)
	slices.SortFunc(starts, func(a, b time.Time) int { return b.Compare(a) })
	return graces[pods-1], starts[highest-1]
}
