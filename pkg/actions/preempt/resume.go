package preempt

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// searchPhase is how far a search has come.
type searchPhase int8

const (
	// pricing: every set of victims is tried, the cheapest first.
	costing searchPhase = iota
	// seating: member after member gets a seat.
	placing
	// halving: the shortest list of the least important victims is looked for.
	bisecting
	// trimming: who is not needed is released.
	reprieving
)

// savedSearch is a search that was cut short, to go on from in the next cycle, as long as nothing has changed, in the session
// either.
//
// Invariant: each cycle brings it one step further at least, however small the budget.
type savedSearch struct {
	version         uint64
	nominationsHash uint64
	stage           searchPhase
	// tried is how many sets were tried without success, or how many members were looked at.
	tried int
	// seats are taken, and units are those who leave for them; of the units the first kept are known to be needed.
	seats []memberPlacement
	units []victimUnit
	kept  int
	// low and high are how many of the least important victims are too few, and enough; high is 0 while that is not known.
	low, high int
	// without are the nodes that the search leaves alone, since a reviewer has objected to evictions there; by whom.
	without map[string]string
}

// suspend ends the search for this cycle.
func (s *search) suspend(d savedSearch) {
	s.cut = true
	d.version, d.nominationsHash, d.without = s.job.Version, s.scene, maps.Clone(s.rounds.without)
	s.draft = &d
}

// resume returns the search as it goes on with its draft, if there is one and it can.
func (s *search) resume() *search {
	before := s.drafts[s.job.Key]
	if before == nil || before.version != s.job.Version || before.nominationsHash != s.nominationsHash() {
		return s
	}
	if len(before.without) > 0 {
		s.rounds.without = maps.Clone(before.without)
		s = s.excludingNodes()
	}
	s.from = *before
	return s
}

// budgetExhausted reports whether the search must stop. It may take one step in any case.
func (s *search) budgetExhausted() bool {
	first := !s.stepped
	s.stepped = true
	return s.budget <= 0 && !first
}

// restorePlan returns the plan of the units of a draft, with the sources of this cycle; nil when they are not to be had any
// more.
func (s *search) restorePlan(units []victimUnit) *plan {
	p := newPlan(s.guard)
	for _, u := range units {
		from := s.pool.of[u.tasks[0]]
		if from == nil || u.whole && !from.wholeUnit || !u.whole && !from.singles[u.tasks[0]] {
			return nil
		}
		again := newUnit(from, u.tasks, u.whole)
		if !p.admits(&again) {
			return nil
		}
		s.addUnit(p, again)
	}
	return p
}

// restorePlacements gives the members of a draft their seats back; nil when that is not possible.
func (s *search) restorePlacements(statement *framework.Statement) *plan {
	p := s.restorePlan(s.from.units)
	if p == nil {
		return nil
	}
	refusal := s.session.Try(func(inner *framework.Statement) *model.Refusal {
		if refusal := s.evictAll(inner, p.units); refusal != nil {
			return refusal
		}
		for _, seat := range s.from.seats {
			if refusal := inner.Pipeline(seat.task, seat.node); refusal != nil {
				return refusal
			}
		}
		return nil
	})
	if refusal != nil {
		return nil
	}
	s.seats = slices.Clone(s.from.seats)
	return p
}
