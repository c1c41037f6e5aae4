package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reprieve releases every unit of a plan, the most important first, without which the job can start just as well. Members that
// a released pod leaves no place move to other nodes. Where members depend on each other, or differ, and moving these does not
// help, all members are placed again, as often as maxReprieveCost allows.
//
// Invariant I10: without any one unit of what it returns, the job cannot start. It is exact for members of one shape that are
// restricted by capacity, by anti-affinity to each other or by one spread constraint: if one more of them has no place, none of
// all arrangements has a place for it. For other gangs it is exact up to maxReprieveCost.
func (s *search) reprieve(p *plan) *plan {
	for _, u := range p.units {
		s.touchedBy = append(s.touchedBy, u.of)
	}
	if s.uniform && !s.limited && len(s.places) == 1 && !slices.ContainsFunc(p.units, func(u victimUnit) bool { return len(u.tasks) > 1 }) {
		return p // the victims on one node are minimal, and free capacity nowhere else
	}
	units := slices.Clone(p.units)
	sortUnits(units)
	slices.Reverse(units)
	r := &reprieval{search: s, placements: maxReprieveCost / max(1, s.placementCost())}
	s.session.Try(func(statement *engine.Statement) *model.Refusal {
		if refusal := s.evictAll(statement, p.units); refusal != nil {
			return refusal
		}
		if refusal := s.takePlaces(statement); refusal != nil {
			return refusal
		}
		units = r.needed(units)
		s.places = s.pipelined()
		return undone()
	})
	kept := newPlan(s.guard, s.claim)
	for _, u := range units {
		kept.add(u)
	}
	return kept
}

// maxReprieveCost is how many looks at nodes placing all members again may cost, in all, to release units of one plan.
const maxReprieveCost = 50_000

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
		for _, u := range units {
			if !r.release(&u) {
				needed = append(needed, u)
			}
		}
		if len(needed) < len(units) && !r.plain && !r.placesHold(statement) {
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
