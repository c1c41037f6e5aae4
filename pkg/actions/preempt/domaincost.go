package preempt

import (
	"cmp"
	"math"
	"slices"
	"sort"

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
		costs, starts := bound.least()
		if !starts {
			return cost{}, false
		}
		if i == 0 || costs.compare(&least) > 0 {
			least = costs
		}
	}
	return least, true
}

// mayCostLess reports whether a plan may cost less than one that was found, in what comes before the grace and the age of its
// victims: by numbers alone, for all nodes that are searched.
func (s *search) mayCostLess(found *plan) bool {
	if found == nil || len(found.units) == 0 {
		return found == nil
	}
	nodes, victims := s.nodes, s.pool.victimsOn(s.session.Snapshot)
	if nodes == nil {
		for i := range s.session.Snapshot.Nodes {
			nodes = append(nodes, i)
		}
	} else { // a gang with members there may have others elsewhere
		victims = slices.DeleteFunc(victims, func(victim domainVictim) bool {
			_, searched := slices.BinarySearch(nodes, victim.node.Index)
			return !searched
		})
	}
	s.spend(len(nodes) / 8)
	least, _ := s.leastCost(&domainVictims{victims: victims}, nodes, s.domainNeeds())
	cost := found.cost()
	return slices.Compare(least[:grace], cost[:grace]) < 0
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
func (b *domainBound) least() (least cost, starts bool) {
	if b.fitWithout(math.MinInt64) >= b.members {
		return cost{}, true
	}
	levels := make([]int64, len(b.victims))
	for i := range b.victims {
		levels[i] = int64(b.victims[i].priority)
	}
	slices.Sort(levels)
	levels = slices.Compact(levels)
	at := sort.Search(len(levels), func(i int) bool { return b.fitWithout(levels[i]) >= b.members })
	if at == len(levels) {
		return cost{}, false
	}
	least[highest] = 1 + weight(int32(levels[at]))
	least[pods] = b.leastPods(levels[at])
	least[gangsEnded] = b.leastGangs(levels[at], least[pods], func(from *victimJob) bool { return from.gang })
	lowest := int64(math.MaxInt64)
	least[grace], least[age], least[queueRank] = math.MaxInt64, math.MaxInt64, math.MaxInt64
	for i := range b.victims {
		one := &b.victims[i]
		least[queueRank] = min(least[queueRank], one.from.wholeOnly.cost[queueRank])
		if int64(one.priority) <= levels[at] {
			lowest = min(lowest, one.from.weightOf(one.task))
			least[grace], least[age] = min(least[grace], graceOf(one.task)), min(least[age], ageOf(one.task))
		}
	}
	least[priorities] = least[pods] * lowest
	if least[queueRank] > 0 { // of other queues' units a plan of a lower price may have a higher priority
		all := levels[len(levels)-1]
		least[endedOfOthers] = b.leastGangs(all, b.leastPods(all), func(from *victimJob) bool { return from.wholeOnly.cost[endedOfOthers] > 0 })
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

// fitWithout returns how many members fit without the pods up to a priority.
func (b *domainBound) fitWithout(priority int64) (sum int64) {
	free := make([]int64, len(b.positions))
	for i := range b.nodes {
		node := &b.nodes[i]
		copy(free, node.free)
		for j := 0; j < len(node.victims) && int64(node.victims[j].priority) <= priority; j++ {
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

// ratio is what one more member on a node costs at least, in parts of a pod, and for how many members.
type ratio struct{ parts, members int64 }

// podParts are so many parts of a pod.
const podParts = 1 << 20

// leastPods returns how many pods up to a priority have to leave at least.
func (b *domainBound) leastPods(priority int64) int64 {
	lack := b.members
	var ratios []ratio
	free, freed := make([]int64, len(b.positions)), make([][]int64, len(b.positions))
	for i := range b.nodes {
		node := &b.nodes[i]
		copy(free, node.free)
		lack -= b.fits(free)
		last := sort.Search(len(node.victims), func(j int) bool { return int64(node.victims[j].priority) > priority })
		if one := b.cheapest(free, freed, node.victims[:last]); one.members > 0 {
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

// leastGangs returns how many gangs that count end at least when so many pods up to a priority leave: the others go first, and
// single members.
func (b *domainBound) leastGangs(priority, pods int64, counts func(*victimJob) bool) (gangs int64) {
	members, singles := map[*victimJob]int64{}, map[*victimJob]int64{}
	for i := range b.victims {
		one := &b.victims[i]
		switch {
		case int64(one.priority) > priority:
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
