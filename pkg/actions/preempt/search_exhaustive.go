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

// searchExhaustive looks at every set of victims, the cheapest first.
func (s *search) searchExhaustive() *plan {
	if s.plain && s.whyNot(s.allUnits()) != nil {
		return nil // with less capacity it starts even less
	}
	for _, p := range s.enumerate() {
		if s.starts(p.plan) {
			return p.plan
		}
	}
	return nil
}

// costedPlan is a plan with its cost.
type costedPlan struct {
	plan *plan
	cost cost
}

// enumerate returns every set of victims that is allowed, the cheapest first, the empty one before all.
func (s *search) enumerate() []costedPlan {
	var plans []costedPlan
	current := newPlan(s.guard, s.claim)
	var choose func(i int)
	choose = func(i int) {
		if i == len(s.pool.sources) {
			s.spend(1)
			plans = append(plans, costedPlan{plan: current.clone(), cost: current.cost()})
			return
		}
		from := s.pool.sources[i]
		if from.wholeUnit && len(from.tasks) > 0 && current.admits(&from.wholeOnly) {
			current.add(from.wholeOnly)
			choose(i + 1)
			current.removeLast()
		}
		var some func(j int)
		some = func(j int) {
			if j == len(from.tasks) {
				choose(i + 1)
				return
			}
			some(j + 1)
			if task := from.tasks[j]; from.singles[task] {
				if u := newUnit(from, from.tasks[j:j+1], false); current.admits(&u) {
					current.add(u)
					some(j + 1)
					current.removeLast()
				}
			}
		}
		some(0)
	}
	choose(0)
	slices.SortStableFunc(plans, func(a, b costedPlan) int { return a.cost.compare(&b.cost) })
	return plans
}

// allUnits returns all units that may be evicted, whether or not together: more than any plan can have.
func (s *search) allUnits() []victimUnit {
	var all []victimUnit
	for _, from := range s.pool.sources {
		if len(from.tasks) > 0 {
			all = append(all, newUnit(from, from.tasks, true))
		}
	}
	return all
}

// extend adds a unit to a plan if it may be; the whole of a job takes the place of its single members.
func (s *search) extend(p *plan, u victimUnit) {
	if u.whole {
		u = p.remainder(u.of)
	}
	if len(u.tasks) > 0 && p.admits(&u) {
		p.add(u)
	}
}

// unitsByCost returns all units of the pool, the least important first.
func (s *search) unitsByCost() []victimUnit {
	var units []victimUnit
	for _, from := range s.pool.sources {
		for i, task := range from.tasks {
			if from.singles[task] {
				units = append(units, newUnit(from, from.tasks[i:i+1], false))
			}
		}
		if from.wholeUnit && len(from.tasks) > 0 {
			units = append(units, from.wholeOnly)
		}
	}
	for i := range units {
		units[i].cost[violations] = newPlan(s.guard, s.claim).violationsWith(&units[i])
	}
	sortUnits(units)
	return units
}
