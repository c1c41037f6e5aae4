package preempt

import (
	"cmp"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// victimSet is the tasks that would have to be evicted so that one more task fits on a node.
type victimSet struct {
	units []victimUnit
	cost  cost
}

// candidate is a unit with what it would free on one node.
type candidate struct {
	victimUnit
	freed model.Resources
}

// maxPairs is up to how many units of a node every two of them are looked at together.
const maxPairs = 24

// victimsOn returns the cheapest victims on a node for a request, on top of a plan, as far as capacity goes; ok is false
// when even all pods that may leave would not free enough for it.
func (s *search) victimsOn(p *plan, node *model.Node, request model.Resources) (cheapest victimSet, ok bool) {
	s.spend(1)
	lack := s.ask.Free(node).Short(request)
	if len(lack) == 0 {
		return victimSet{}, true
	}
	if !s.upperBoundSuffices(node, lack) {
		return victimSet{}, false
	}
	candidates := s.candidates(p, node, lack)
	if enough := s.greedyVictims(p, candidates, lack); enough != nil {
		cheapest, ok = s.newVictimSet(p, enough), true
	}
	// A gang that can spare some members has spared those that cost least. It may not have to end if it spares those that free most.
	if (!ok || cheapest.cost[gangsEnded] > 0) && slices.ContainsFunc(candidates, func(b candidate) bool { return !b.whole && b.of.gang }) {
		if enough := s.greedyVictims(p, byFreed(candidates, lack), lack); enough != nil {
			if other := s.newVictimSet(p, enough); !ok || other.cost.compare(&cheapest.cost) < 0 {
				cheapest, ok = other, true
			}
		}
	}
	if ok {
		most := cheapest.cost
		candidates = slices.DeleteFunc(candidates, func(b candidate) bool {
			return slices.Compare(b.cost[:highest+1], most[:highest+1]) > 0
		})
	}
	if few := s.smallestVictims(p, candidates, lack); few != nil {
		if other := s.newVictimSet(p, few); !ok || other.cost.compare(&cheapest.cost) < 0 {
			cheapest, ok = other, true
		}
	}
	return cheapest, ok
}

// upperBoundSuffices reports, cheaply, whether evicting all candidates of the node would release enough.
func (s *search) upperBoundSuffices(node *model.Node, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for _, task := range node.Tasks {
			if amount > 0 && s.pool.of[task] != nil && (task.Status == model.Bound || task.Status == model.Running) {
				amount -= node.Charge(task).At(l.Index)
			}
		}
		if amount > 0 {
			return false
		}
	}
	return true
}

// candidates returns what could leave the node and would help, the least important first.
func (s *search) candidates(p *plan, node *model.Node, lack []model.Shortage) []candidate {
	candidates := make([]candidate, 0, min(len(node.Tasks), maxPairs))
	for _, task := range node.Tasks {
		from := s.pool.of[task]
		if from == nil || task.Status != model.Bound && task.Status != model.Running {
			continue
		}
		if from.singles[task] {
			u := newUnit(from, []*model.Task{task}, false)
			candidates = s.addCandidate(candidates, p, u, node.Charge(task), lack)
		}
		if from.wholeUnit && !slices.ContainsFunc(candidates, func(b candidate) bool { return b.of == from && b.whole }) {
			candidates = s.addCandidate(candidates, p, p.remainder(from), from.usageOn(node), lack)
		}
	}
	slices.SortFunc(candidates, func(a, b candidate) int { return compareUnits(&a.victimUnit, &b.victimUnit) })
	return candidates
}

// addCandidate adds a unit that may go and frees something that is lacking.
func (s *search) addCandidate(candidates []candidate, p *plan, u victimUnit, freed model.Resources, lack []model.Shortage) []candidate {
	if !slices.ContainsFunc(lack, func(l model.Shortage) bool { return freed.At(l.Index) > 0 }) || !p.admits(&u) {
		return candidates
	}
	u.cost[violations] = p.violationsWith(&u)
	return append(candidates, candidate{victimUnit: u, freed: freed})
}

// byFreed orders candidates by priority, then by how much of what is lacking they free.
func byFreed(candidates []candidate, lack []model.Shortage) []candidate {
	freed := func(b *candidate) (thousandths int64) {
		for _, l := range lack {
			thousandths += 1000 * min(b.freed.At(l.Index), l.Amount) / l.Amount
		}
		return thousandths
	}
	candidates = slices.Clone(candidates)
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		return cmp.Or(slices.Compare(a.cost[:gangsEnded+1], b.cost[:gangsEnded+1]), cmp.Compare(freed(&b), freed(&a)))
	})
	return candidates
}

// usageOn returns what all of the source take on a node.
func (s *victimJob) usageOn(node *model.Node) model.Resources {
	if len(s.tasks) == 1 {
		return node.Charge(s.tasks[0])
	}
	var sum model.Resources
	for _, task := range s.tasks {
		if task.Node == node.Name && task.Status != model.Releasing {
			sum.Add(node.Charge(task))
		}
	}
	return sum
}

// greedyVictims takes candidates from the least important on until they suffice, and then releases, the most important first,
// those that are not needed; nil when all together do not suffice.
func (s *search) greedyVictims(p *plan, candidates []candidate, lack []model.Shortage) []candidate {
	var taken []candidate
	before := len(p.units)
	for _, b := range candidates {
		if coversShortage(taken, lack) {
			break
		}
		// The whole of a job beside its single members is the whole alone.
		if b.whole {
			taken = s.replaceSingles(p, taken, b.of)
		}
		if p.admits(&b.victimUnit) {
			p.add(b.victimUnit)
			taken = append(taken, b)
		}
	}
	for len(p.units) > before {
		p.removeLast()
	}
	if !coversShortage(taken, lack) {
		return nil
	}
	slices.SortFunc(taken, func(a, b candidate) int { return -compareUnits(&a.victimUnit, &b.victimUnit) })
	for i := 0; i < len(taken); {
		rest := slices.Delete(slices.Clone(taken), i, i+1)
		if coversShortage(rest, lack) {
			taken = rest
		} else {
			i++
		}
	}
	return taken
}

// replaceSingles takes the single members of a source that were taken last out of the plan again.
func (s *search) replaceSingles(p *plan, taken []candidate, of *victimJob) []candidate {
	if !slices.ContainsFunc(taken, func(b candidate) bool { return b.of == of }) {
		return taken
	}
	for range taken {
		p.removeLast()
	}
	taken = slices.DeleteFunc(taken, func(b candidate) bool { return b.of == of })
	for _, b := range taken {
		p.add(b.victimUnit)
	}
	return taken
}

// smallestVictims returns the cheapest single candidate that suffices, or two that are cheaper together; nil when there are none.
func (s *search) smallestVictims(p *plan, candidates []candidate, lack []model.Shortage) []candidate {
	var best []candidate
	least := cost{violations: 1 << 30}
	for i := range candidates {
		if coversShortage(candidates[i:i+1], lack) {
			best, least = candidates[i:i+1], candidates[i].cost
			break
		}
	}
	// Two can only be cheaper than one if neither is as important as that one.
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(b candidate) bool { return best != nil && slices.Compare(b.cost[:gangsEnded+1], least[:gangsEnded+1]) >= 0 })
	if len(candidates) > maxPairs {
		return best
	}
	for i := range candidates {
		p.add(candidates[i].victimUnit)
		for j := i + 1; j < len(candidates); j++ {
			two := []candidate{candidates[i], candidates[j]}
			if !coversShortage(two, lack) || !p.admits(&candidates[j].victimUnit) || candidates[i].of == candidates[j].of && (candidates[i].whole || candidates[j].whole) {
				continue
			}
			if sum := s.sumOf(p, &candidates[i], &candidates[j]); best == nil || sum.compare(&least) < 0 {
				best, least = two, sum
			}
		}
		p.removeLast()
	}
	return best
}

// sumOf returns what two candidates cost, the first of which is in the plan.
func (s *search) sumOf(p *plan, first, second *candidate) cost {
	sum := first.cost.plus(&second.cost)
	sum[violations] = p.violationsWith(&second.victimUnit)
	return sum
}

func coversShortage(candidates []candidate, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for i := range candidates {
			amount -= candidates[i].freed.At(l.Index)
		}
		if amount > 0 {
			return false
		}
	}
	return true
}

func (s *search) newVictimSet(p *plan, candidates []candidate) victimSet {
	o := victimSet{units: make([]victimUnit, 0, len(candidates))}
	for i := range candidates {
		o.units = append(o.units, candidates[i].victimUnit)
	}
	o.cost = s.addedCost(p, o.units)
	return o
}
