package preempt

import (
	"slices"
)

const (
	// exhaustivePods is up to how many pods that may be evicted every set of them is looked at; there are at most 2 to the
	// power of that many.
	exhaustivePods = 12
	// exhaustiveNodes is up to how many nodes that is done: on more of them the usual way is hardly worse, and far cheaper.
	exhaustiveNodes = 64
)

// findAmongAll looks at every set of victims, the cheapest first.
func (s *search) findAmongAll() *plan {
	if s.plain && s.from.tried == 0 && s.whyNot(s.everybody()) != nil {
		return nil // with less room it starts even less
	}
	plans := s.allPlans()
	for i := min(s.from.tried, len(plans)); i < len(plans); i++ {
		if s.spent() {
			s.stop(draft{stage: pricing, tried: i})
			return nil
		}
		if s.starts(plans[i].plan) {
			return plans[i].plan
		}
	}
	return nil
}

// priced is a plan with its cost.
type priced struct {
	plan *plan
	cost cost
}

// allPlans returns every set of victims that is allowed, the cheapest first, the empty one before all.
func (s *search) allPlans() []priced {
	var plans []priced
	current := newPlan(s.guard)
	var choose func(i int)
	choose = func(i int) {
		if i == len(s.pool.sources) {
			s.spend(1)
			plans = append(plans, priced{plan: current.clone(), cost: current.cost()})
			return
		}
		from := s.pool.sources[i]
		if from.whole && len(from.tasks) > 0 && current.admits(&from.entire) {
			current.add(from.entire)
			choose(i + 1)
			current.drop()
		}
		var some func(j int)
		some = func(j int) {
			if j == len(from.tasks) {
				choose(i + 1)
				return
			}
			some(j + 1)
			if task := from.tasks[j]; from.single[task] {
				if u := newUnit(from, from.tasks[j:j+1], false); current.admits(&u) {
					current.add(u)
					some(j + 1)
					current.drop()
				}
			}
		}
		some(0)
	}
	choose(0)
	slices.SortStableFunc(plans, func(a, b priced) int { return a.cost.compare(&b.cost) })
	return plans
}

// everybody returns all who may go, whether they may go together or not: more than any plan can have.
func (s *search) everybody() []unit {
	var all []unit
	for _, from := range s.pool.sources {
		if len(from.tasks) > 0 {
			all = append(all, newUnit(from, from.tasks, true))
		}
	}
	return all
}

// widen adds a unit to a plan if it may be; the whole of a job takes the place of its single members.
func (s *search) widen(p *plan, u unit) {
	if u.whole {
		u = p.rest(u.of)
	}
	if len(u.tasks) > 0 && p.admits(&u) {
		p.add(u)
	}
}

// inCostOrder returns all units of the pool, the least important first.
func (s *search) inCostOrder() []unit {
	var units []unit
	for _, from := range s.pool.sources {
		for i, task := range from.tasks {
			if from.single[task] {
				units = append(units, newUnit(from, from.tasks[i:i+1], false))
			}
		}
		if from.whole && len(from.tasks) > 0 {
			units = append(units, from.entire)
		}
	}
	for i := range units {
		units[i].cost.violations = newPlan(s.guard).violationsWith(&units[i])
	}
	slices.SortFunc(units, func(a, b unit) int { return compareUnits(&a, &b) })
	return units
}
