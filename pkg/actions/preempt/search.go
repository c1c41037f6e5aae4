package preempt

import (
	"slices"

	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// search looks for the victims of one job.
type search struct {
	*run
	job   *model.Job
	pool  *candidateVictims
	trial *placement.Placer
	// rounds is what reviewers have said about plans for the job.
	rounds *extenderRound
	// boards are the run's, or this search's own when its pool is.
	boards map[heapKey]*nodeCostHeap
	// plain reports that shape and room alone decide where members may go; uniform that they also are all of one shape.
	plain, uniform bool
	// seats are where the members went in the plan that was found.
	seats []memberPlacement
	// cut reports that the budget has ended the search, draft is then where it goes on. from is where this one goes on; its
	// stage is pricing when it begins. stepped reports that it has taken a step.
	cut     bool
	draft   *savedSearch
	from    savedSearch
	stepped bool
	// touchedBy are the sources that plans took from.
	touchedBy []*victimJob
}

// memberPlacement is a place for one member.
type memberPlacement struct {
	task *model.Task
	node *model.Node
}

// undone is the refusal that takes a question's changes back.
func undone() *model.Refusal { return &model.Refusal{} }

func (r *run) newSearch(job *model.Job, pool *candidateVictims) *search {
	s := &search{
		run: r, job: job, pool: pool, trial: placement.New(r.session, job, r.largest, &r.exhaustiveBudget), rounds: &extenderRound{}, boards: r.boards,
	}
	members := s.trial.Members()
	s.plain = !slices.ContainsFunc(members, func(task *model.Task) bool { return !r.session.FitsByResourcesOnly(task) })
	s.uniform = s.plain && !slices.ContainsFunc(members, func(task *model.Task) bool {
		return task.Shape != members[0].Shape || task.Role != members[0].Role || task.Invalid != nil
	})
	return s
}

// find returns the plan, nil when there is none.
func (s *search) find() *plan {
	if s.pool.pods <= s.exhaustiveLimit && len(s.session.Snapshot.Nodes) <= exhaustiveNodes {
		return s.searchExhaustive()
	}
	var found *plan
	if s.from.stage <= placing {
		found = s.searchGreedy()
	}
	if s.from.stage <= bisecting && found == nil && !s.cut && !s.uniform {
		found = s.searchClusterWide()
	}
	if s.from.stage == reprieving {
		if found = s.restorePlan(s.from.units); found == nil {
			s.from = savedSearch{}
			return s.find()
		}
		s.seats = s.from.seats
	}
	if found == nil || s.cut {
		return nil
	}
	if found = s.reprieve(found); s.cut {
		return nil
	}
	return found
}

// starts reports whether the job can start when all of a plan leave. It leaves no trace.
func (s *search) starts(p *plan) bool { return s.whyNot(p.units) == nil }

// whyNot returns why the job cannot start when all of the units leave, nil when it can.
func (s *search) whyNot(units []victimUnit) (why *model.Refusal) {
	for i := range units {
		s.spend(len(units[i].tasks))
	}
	s.spend(s.looks())
	s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if why = s.evictAll(statement, units); why == nil {
			why = s.trial.Place(model.FutureIdle)
		}
		return undone() // it was only a question
	})
	return why
}

// looks is what a try to start the job costs in looks at nodes: one per member, or one per member and node where every member
// is asked about all of them.
func (s *search) looks() int {
	members := len(s.trial.Members())
	if s.plain {
		return members
	}
	return members * max(1, len(s.session.Snapshot.Nodes)/8)
}

// decide makes the plan come true; false when a reviewer objects after all.
func (s *search) decide(p *plan) bool {
	if !s.agreed(p) {
		return false
	}
	refusal := s.session.Try(func(statement *framework.Statement) *model.Refusal {
		if refusal := s.apply(statement, p); refusal != nil {
			return refusal
		}
		return s.review(p)
	})
	if refusal != nil {
		return false
	}
	s.account(p)
	if s.evicted[s.job.Key] = len(p.units) > 0 || holdsNomination(s.job); len(p.units) > 0 {
		s.plans++
	}
	s.toggleNomination()
	waits := placement.WaitingForVictims(s.session.Snapshot, s.job)
	if len(p.units) == 0 { // others have left room over since it was refused
		waits.Detail = "starts on room that is being released, once it is free; " + s.session.Refusal(s.job).String()
	}
	s.session.Refuse(s.job, waits)
	return true
}

// apply marks the victims of a plan and promises the members room.
func (s *search) apply(statement *framework.Statement, p *plan) *model.Refusal {
	if refusal := s.evictAll(statement, p.units); refusal != nil {
		return refusal
	}
	return s.start(statement)
}

// account takes the victims of a plan that was applied off what later plans of the run may take.
func (s *search) account(p *plan) {
	for i := range p.covered {
		s.guard.used[i] += p.covered[i]
	}
	s.removeEvicted(p.units)
}

// start promises the members room, their seats if the free choice does not do.
func (s *search) start(statement *framework.Statement) *model.Refusal {
	if s.trial.Place(model.FutureIdle) == nil {
		return nil
	}
	for _, seat := range s.seats {
		if !s.session.FitsByResourcesOnly(seat.task) && !s.session.FeasibleOn(seat.task, seat.node, model.FutureIdle) {
			return undone() // a filter has changed its mind since the seat was taken, in an earlier cycle
		}
		if refusal := statement.Pipeline(seat.task, seat.node); refusal != nil {
			return refusal
		}
	}
	return s.session.JobReady(s.job, framework.Pipelined)
}

// agreed asks the victim pickers about the job itself: what they said before was about the first of its priority.
func (s *search) agreed(p *plan) bool {
	units := make([]framework.EvictionUnit, len(p.units))
	for i, u := range p.units {
		units[i] = framework.EvictionUnit{Job: u.of.job, Tasks: u.tasks, WholeGang: u.whole}
	}
	return len(s.session.Victims(s.job, units)) == len(units)
}

// addUnit adds a unit to the plan.
func (s *search) addUnit(p *plan, u victimUnit) {
	if p.lossPerJob[u.of] == (jobLoss{}) {
		s.touchedBy = append(s.touchedBy, u.of)
	}
	p.add(u)
}

// markDirty lets boards look again at the nodes of every source that a search took victims from.
func (r *run) markDirty(s *search) {
	for _, of := range s.touchedBy {
		if of.job == nil {
			continue
		}
		for _, task := range of.tasks {
			if node := r.session.Snapshot.Node(task.Node); node != nil {
				r.touched = append(r.touched, node)
			}
		}
	}
}
