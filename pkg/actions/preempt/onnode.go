package preempt

import (
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

// victimsOn returns the cheapest victims on a node for a request, on top of a plan, as far as capacity goes; ok is false
// when even all pods that may leave would not free enough for it. Each unit in turn is taken first, then those that cost least
// until they suffice, and what is not needed is given back.
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
	for first := range candidates {
		if ok && candidates[first].cost.compare(&cheapest.cost) >= 0 {
			break // so does each set with it, and with those behind it
		}
		if enough := s.enoughWith(p, candidates, first, lack); enough != nil {
			if other := (victimSet{enough, s.addedCost(p, enough)}); !ok || other.cost.compare(&cheapest.cost) < 0 {
				cheapest, ok = other, true
			}
		}
	}
	return cheapest, ok
}

// upperBoundSuffices reports, cheaply, whether evicting all candidates of the node would release enough.
func (s *search) upperBoundSuffices(node *model.Node, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for _, task := range node.Tasks {
			if amount > 0 && s.pool.of[task] != nil && inPlace(task) {
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
	candidates := make([]candidate, 0, len(node.Tasks))
	for _, task := range node.Tasks {
		from := s.pool.of[task]
		if from == nil || !inPlace(task) {
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

// enoughWith takes one candidate, then the others from the least important on until they suffice, and gives back what is not
// needed, the most important first and the one last. It returns what is left; nil when all together do not suffice.
func (s *search) enoughWith(p *plan, candidates []candidate, first int, lack []model.Shortage) (enough []victimUnit) {
	before, taken := len(p.units), []int(nil)
	for i := -1; i < len(candidates) && !coverShortage(candidates, taken, lack); i++ {
		next := i
		if i < 0 {
			next = first
		} else if i == first {
			continue
		}
		u := &candidates[next].victimUnit
		if u.whole && p.lossPerJob[u.of].single > 0 { // the whole of a job beside its single members is the whole alone
			p.shorten(before)
			taken = slices.DeleteFunc(taken, func(j int) bool { return candidates[j].of == u.of })
			for _, j := range taken {
				p.add(candidates[j].victimUnit)
			}
		}
		if p.admits(u) {
			p.add(*u)
			taken = append(taken, next)
		}
	}
	p.shorten(before)
	if !coverShortage(candidates, taken, lack) {
		return nil
	}
	for i := len(taken) - 1; i >= 0; i-- {
		kept := taken[i]
		if taken = slices.Delete(taken, i, i+1); !coverShortage(candidates, taken, lack) {
			taken = slices.Insert(taken, i, kept)
		}
	}
	for _, i := range taken {
		enough = append(enough, candidates[i].victimUnit)
	}
	return enough
}

// coverShortage reports whether those candidates free what is lacking.
func coverShortage(candidates []candidate, taken []int, lack []model.Shortage) bool {
	for _, l := range lack {
		amount := l.Amount
		for _, i := range taken {
			amount -= candidates[i].freed.At(l.Index)
		}
		if amount > 0 {
			return false
		}
	}
	return true
}
