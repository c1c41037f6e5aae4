package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// plan is the victims for one job.
//
// Invariant: of no source more single members are in it than its surplus and that of their roles, unless all the rest is in it,
// too; where the guard is strict, no budget loses more than it allows.
type plan struct {
	guard *pdbBudget
	// lost is what other queues lose, nil for nothing.
	lost  map[*model.Queue]model.Resources
	units []victimUnit
	// places are where the members go when the units leave.
	places []memberPlacement
	// lossPerJob is what each source gives; covered is by budget, as pdbBudget.used.
	lossPerJob map[*victimJob]jobLoss
	covered    []int32
}

// jobLoss is what one source gives: single members, or everything.
type jobLoss struct {
	single int
	whole  bool
}

func newPlan(guard *pdbBudget) *plan {
	return &plan{guard: guard, lossPerJob: map[*victimJob]jobLoss{}, covered: make([]int32, len(guard.used))}
}

// admits reports whether the unit may be added.
func (p *plan) admits(u *victimUnit) bool {
	return !p.lossPerJob[u.of].whole && (u.whole || p.spares(u)) &&
		(u.of.claim == nil || u.of.claim.Takes(u.evictionUnit(), p.lost))
}

// spares reports whether the job of a single member can spare one more, and its role can.
func (p *plan) spares(u *victimUnit) bool {
	return p.lossPerJob[u.of].single < u.of.surplus && p.roleAdmits(u)
}

func (u *victimUnit) evictionUnit() *framework.EvictionUnit {
	return &framework.EvictionUnit{Job: u.of.job, Tasks: u.tasks, WholeGang: u.whole}
}

// lose adds what goes with a unit to what is lost, or takes it off.
func (p *plan) lose(u *victimUnit, sign int32) {
	given := p.lossPerJob[u.of]
	if u.whole {
		given.whole = sign > 0
	} else {
		given.single += int(sign)
	}
	p.lossPerJob[u.of] = given
	p.markCovered(u, sign)
	if u.of.claim == nil {
		return
	}
	if p.lost == nil {
		p.lost = map[*model.Queue]model.Resources{}
	}
	queue := u.of.job.InQueue()
	sum := p.lost[queue]
	for _, task := range u.tasks {
		if sign > 0 {
			sum.Add(task.Request)
		} else {
			sum.Sub(task.Request)
		}
	}
	if p.lost[queue] = sum; sum.Equal(nil) { // claims look at what is there
		delete(p.lost, queue)
	}
}

func (p *plan) roleAdmits(u *victimUnit) bool {
	left, limited := u.of.roles[u.tasks[0].Role]
	if !limited {
		return true
	}
	for i := range p.units {
		if other := &p.units[i]; other.of == u.of && other.tasks[0].Role == u.tasks[0].Role {
			left--
		}
	}
	return left > 0
}

// violationsWith returns how many pods too many the budgets lose with the unit, those before included.
func (p *plan) violationsWith(u *victimUnit) int64 {
	if len(p.covered) == 0 {
		return 0
	}
	p.markCovered(u, 1)
	excess := p.guard.violationsWith(p.covered)
	p.markCovered(u, -1)
	return excess
}

func (p *plan) markCovered(u *victimUnit, sign int32) {
	for _, task := range u.tasks {
		p.guard.charge(p.covered, task, sign)
	}
}

// add takes a unit into the plan, which must admit it.
func (p *plan) add(u victimUnit) {
	p.units = append(p.units, u)
	p.lose(&u, 1)
}

// shorten takes all units but the first ones out again.
func (p *plan) shorten(first int) {
	for _, u := range slices.Backward(p.units[first:]) {
		p.lose(&u, -1)
	}
	p.units = p.units[:first]
}

// extend adds a unit to a plan if it may be; the whole of a job takes the place of its single members.
func (p *plan) extend(u victimUnit) {
	if u.whole {
		u = p.remainder(u.of)
	}
	if len(u.tasks) > 0 && p.admits(&u) {
		p.add(u)
	}
}

// remainder returns the unit of what a source still has beside the single members that are in the plan.
func (p *plan) remainder(of *victimJob) victimUnit {
	if p.lossPerJob[of].single == 0 {
		return of.wholeOnly
	}
	var rest []*model.Task
	for _, task := range of.tasks {
		if !slices.ContainsFunc(p.units, func(u victimUnit) bool { return u.of == of && u.tasks[0] == task }) {
			rest = append(rest, task)
		}
	}
	return newUnit(of, rest, true)
}

// beside returns the units of the plan that may go beside one more: no single member does beside all of its job, and one of
// them stays where the job can spare no more.
func (p *plan) beside(u *victimUnit) (units, stay []victimUnit) {
	most := -1 // the place of the one that costs most, of the same role if it is the role that can spare no more
	for i := range p.units {
		other := &p.units[i]
		switch mine := other.of == u.of; {
		case mine && u.whole:
			continue
		case mine && !p.spares(u) && (p.roleAdmits(u) || other.tasks[0].Role == u.tasks[0].Role) && (most < 0 || compareUnits(other, &units[most]) > 0):
			most = len(units)
		}
		units = append(units, *other)
	}
	if most >= 0 {
		stay, units = []victimUnit{units[most]}, slices.Delete(units, most, most+1)
	}
	return units, stay
}

// mergeWhole returns the same plan with each job that goes in parts until nothing is left of it as one unit.
func (p *plan) mergeWhole() *plan {
	again := newPlan(p.guard)
	again.places = p.places
	for _, u := range p.units {
		switch given := p.lossPerJob[u.of]; {
		case !given.whole:
			again.add(u)
		case !again.lossPerJob[u.of].whole:
			again.add(u.of.wholeOnly)
		}
	}
	return again
}

// cost sums up what the plan costs.
func (p *plan) cost() cost {
	var sum cost
	for i := range p.units {
		sum = sum.plus(&p.units[i].cost)
	}
	sum[violations] = p.guard.violationsWith(p.covered)
	return sum
}

// breaks reports whether the plan asks too much of a budget that must be kept.
func (p *plan) breaks() bool {
	return p != nil && p.guard.strict && p.guard.violationsWith(p.covered) > 0
}

// isCheaperThan reports whether a plan costs less than another one; nil, which is none, does not.
func (p *plan) isCheaperThan(other *plan) bool {
	if p == nil || other == nil {
		return p != nil
	}
	own, its := p.cost(), other.cost()
	return own.compare(&its) < 0
}

// evict marks the pods of units for eviction, as the arguments say.
func (r *run) evict(statement *engine.Statement, units ...victimUnit) *model.Refusal {
	for i := range units {
		for _, task := range units[i].tasks {
			if refusal := statement.EvictBy(task, r.options.Method); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// unevict gives a unit's pods back their places.
func unevict(statement *engine.Statement, u *victimUnit) {
	for _, task := range u.tasks {
		statement.Unevict(task)
	}
}
