package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

const (
	// maxReprieveCost is how many looks at nodes placing all members again may cost, in all, to release units of one plan.
	maxReprieveCost = 50_000
	// maxExchangeCost is how many looks at nodes exchanging units of one plan may cost, maxExchanges how many units are tried.
	maxExchangeCost = 5_000
	maxExchanges    = 12
)

// reprieve releases every unit of a plan, the most important first, without which the job can start just as well. Members that
// a released pod leaves no place move to other nodes. Where members depend on each other, or differ, and moving these does not
// help, all members are placed again, as often as maxReprieveCost allows.
//
// Invariant I10: without any one unit of what it returns, the job cannot start. It is exact for members of one shape that are
// restricted by capacity, by anti-affinity to each other or by one spread constraint: if one more of them has no place, none of
// all arrangements has a place for it. For other gangs it is exact up to maxReprieveCost.
func (s *search) reprieve(p *plan) *plan {
	if p == nil {
		return nil
	}
	for _, u := range p.units {
		s.touchedBy = append(s.touchedBy, u.of)
	}
	if s.onOneNode(p) {
		return p
	}
	return s.giveBack(p, p.units, nil, nil, maxReprieveCost)
}

// onOneNode reports whether victims of a plan free capacity on one node alone, for one member: then they are the best there.
func (s *search) onOneNode(p *plan) bool {
	return p != nil && s.uniform && !s.limited && len(p.places) == 1 && !slices.ContainsFunc(p.units, func(u victimUnit) bool { return len(u.tasks) > 1 })
}

// exchange adds one unit that is not in the plan, gives back what is then not needed, and keeps that if it costs less; for each
// unit in turn, those that cost least first, as far as maxExchangeCost goes.
func (s *search) exchange(p *plan) *plan {
	if p == nil || len(p.units) == 0 {
		return p
	}
	if s.pool.byCost == nil {
		s.pool.byCost = s.unitsByCost()
	}
	least, end, left := p.cost(), s.budget-maxExchangeCost, maxExchanges
	for _, u := range s.pool.byCost {
		if u.cost.compare(&least) >= 0 || s.budget < end || left == 0 {
			break // each set with the unit costs no less
		}
		if u.whole {
			u = u.of.wholeOnly
		}
		if u.whole && !u.of.wholeUnit || s.pool.of[u.tasks[0]] == nil { // it has been evicted since
			continue
		}
		if p.lossPerJob[u.of].whole || slices.ContainsFunc(p.units, func(other victimUnit) bool { return !u.whole && other.tasks[0] == u.tasks[0] }) {
			continue
		}
		left--
		units, stay := p.beside(&u)
		if other := s.giveBack(p, units, stay, &u, s.budget-end); other.isCheaperThan(p) {
			p, least = other, other.cost()
			s.touchedBy = append(s.touchedBy, u.of)
		}
	}
	return p
}

// giveBack returns the plan of the units without which the job cannot start, of a plan by which it can. They are given back in
// the order, the last one behind all others. What must stay does. It is nil when the job cannot start in this way, or has no
// right to it.
func (s *search) giveBack(p *plan, units, stay []victimUnit, last *victimUnit, looks int64) *plan {
	kept := newPlan(s.guard)
	kept.places = p.places
	units = slices.Clone(units)
	s.guard.countExcess(units)
	sortUnits(units)
	slices.Reverse(units)
	if last != nil {
		units = append(units, *last)
	}
	r := &reprieval{search: s, placements: int(looks) / max(1, s.placementCost())}
	refusal := s.session.Try(func(statement *engine.Statement) *model.Refusal {
		for _, going := range [][]victimUnit{units, stay} {
			if refusal := s.evict(statement, going...); refusal != nil {
				return refusal
			}
		}
		if refusal := s.takePlaces(statement, p.places); refusal != nil {
			return refusal
		}
		if last != nil {
			s.spend(len(units) + len(p.places))
		}
		for i := range stay {
			if !r.release(&stay[i]) {
				return &model.Refusal{Code: model.InsufficientResources}
			}
		}
		units = r.needed(units)
		kept.places = s.pipelined()
		if last != nil && !s.allows(units) {
			return &model.Refusal{Code: model.InsufficientResources}
		}
		return undone()
	})
	if refusal.Code != "" && (last != nil || len(stay) > 0) {
		return nil
	}
	for _, u := range units {
		if last != nil && !kept.admits(&u) {
			return nil
		}
		kept.add(u)
	}
	return kept
}

// reprieval is a search for the units that a plan does not need. The members are nominated to their places meanwhile.
type reprieval struct {
	*search
	// placements is how often all members may still be placed again in vain.
	placements int
}

// needed releases units and returns those that cannot be. A pod that is released may restrict members anywhere, so all places
// are checked after many units; if one does not hold, half as many are released.
func (r *reprieval) needed(units []victimUnit) (needed []victimUnit) {
	refusal := r.session.Try(func(statement *engine.Statement) *model.Refusal {
		released := false
		for _, u := range units {
			left := r.part(u)
			released = released || len(left) == 0 || left[0].whole != u.whole
			needed = append(needed, left...)
		}
		if released && !r.plain && !r.placesHold(statement) {
			return undone()
		}
		return nil
	})
	switch {
	case refusal == nil:
		return needed
	case len(units) == 1:
		return units
	}
	half := len(units) / 2
	first := r.needed(units[:half])
	return slices.Concat(first, r.needed(units[half:]))
}

// part releases a unit, or as much of a whole job that it can go on, and returns what is needed of it.
func (r *reprieval) part(u victimUnit) []victimUnit {
	if r.release(&u) {
		return nil
	}
	single := newPlan(r.guard)
	refusal := undone()
	if u.whole && len(u.of.singles) > 0 {
		refusal = r.session.Try(func(*engine.Statement) *model.Refusal {
			for _, task := range slices.Backward(u.tasks) {
				one := newUnit(u.of, []*model.Task{task}, false)
				if r.release(&one) {
					continue
				}
				if !u.of.singles[task] || !single.admits(&one) {
					return undone()
				}
				single.add(one)
			}
			return nil
		})
	}
	if refusal != nil {
		return []victimUnit{u}
	}
	return single.units
}

// release releases one unit; false when the job cannot start then.
func (r *reprieval) release(u *victimUnit) bool {
	refusal := r.session.Try(func(statement *engine.Statement) *model.Refusal {
		if unevict(statement, u); r.overLimit() != nil {
			return undone()
		}
		return r.moveDisplaced(statement, u)
	})
	if refusal == nil || r.uniform || r.placements == 0 {
		return refusal == nil
	}
	r.placements--
	r.spend(r.placementCost())
	return r.session.Try(func(statement *engine.Statement) *model.Refusal {
		unevict(statement, u)
		for _, member := range r.pipelined() {
			statement.Unpipeline(member.task)
		}
		return r.trial.Place()
	}) == nil
}

// moveDisplaced finds other places for the members that have none beside the pods of the unit any more.
func (r *reprieval) moveDisplaced(statement *engine.Statement, u *victimUnit) *model.Refusal {
	for _, task := range u.tasks {
		node := r.session.Snapshot.Node(task.Node)
		if node == nil { // it is gone, and its pod not yet
			continue
		}
		for _, member := range slices.Clone(node.Tasks) {
			if member.Job != r.job.Key || !isPipelined(member) {
				continue
			}
			statement.Unpipeline(member)
			r.spend(1)
			if (r.plain || r.ask.Fits(member, node)) && statement.Put(r.ask, member, node) == nil {
				continue
			}
			other := r.bestNodeFor(member)
			if other == nil {
				return undone()
			}
			if refusal := statement.Put(r.ask, member, other); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// placesHold reports whether each member may be where it is, with all others where they are.
func (r *reprieval) placesHold(statement *engine.Statement) bool {
	for _, member := range r.pipelined() {
		statement.Unpipeline(member.task)
		if !r.ask.Fits(member.task, member.node) || statement.Put(r.ask, member.task, member.node) != nil {
			return false
		}
	}
	return true
}

// pipelined returns where the members are.
func (s *search) pipelined() (places []memberPlacement) {
	for _, task := range s.trial.Members() {
		if isPipelined(task) {
			places = append(places, memberPlacement{task: task, node: s.session.Snapshot.Node(task.Node)})
		}
	}
	return places
}
