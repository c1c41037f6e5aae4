package preempt

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// stage is how far a search has come.
type stage int8

const (
	// pricing: every set of victims is tried, the cheapest first.
	pricing stage = iota
	// seating: member after member gets a seat.
	seating
	// halving: the shortest list of the least important victims is looked for.
	halving
	// trimming: who is not needed is given back.
	trimming
)

// draft is a search that was cut short, to go on from in the next cycle, as long as nothing has changed, in the session either.
//
// Invariant: each cycle brings it one step further at least, however small the budget.
type draft struct {
	version uint64
	scene   uint64
	stage   stage
	// tried is how many sets were tried without success, or how many members were looked at.
	tried int
	// seats are taken, and units are those who leave for them; of the units the first kept are known to be needed.
	seats []seat
	units []unit
	kept  int
	// low and high are how many of the least important victims are too few, and enough; high is 0 while that is not known.
	low, high int
	// without are the nodes that the search leaves alone, since a reviewer has objected to evictions there; by whom.
	without map[string]string
}

// stop ends the search for this cycle.
func (s *search) stop(d draft) {
	s.cut = true
	d.version, d.scene, d.without = s.job.Version, s.scene, maps.Clone(s.hearing.without)
	s.draft = &d
}

// takenUp returns the search as it goes on with its draft, if there is one and it can.
func (s *search) takenUp() *search {
	before := s.drafts[s.job.Key]
	if before == nil || before.version != s.job.Version || before.scene != s.sceneNow() {
		return s
	}
	if len(before.without) > 0 {
		s.hearing.without = maps.Clone(before.without)
		s = s.narrowed()
	}
	s.from = *before
	return s
}

// spent tells whether the search must stop. It may take one step in any case.
func (s *search) spent() bool {
	first := !s.stepped
	s.stepped = true
	return s.left <= 0 && !first
}

// resumed returns the plan of the units of a draft, with the sources of this cycle; nil when they are not to be had any more.
func (s *search) resumed(units []unit) *plan {
	p := newPlan(s.guard)
	for _, u := range units {
		from := s.pool.of[u.tasks[0]]
		if from == nil || u.whole && !from.whole || !u.whole && !from.single[u.tasks[0]] {
			return nil
		}
		again := newUnit(from, u.tasks, u.whole)
		if !p.admits(&again) {
			return nil
		}
		s.claim(p, again)
	}
	return p
}

// sitAgain gives the members of a draft their seats back; nil when that is not possible.
func (s *search) sitAgain(statement *framework.Statement) *plan {
	p := s.resumed(s.from.units)
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
