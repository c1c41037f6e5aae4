package preempt

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
)

// This file is about equals: jobs of one priority that all hold room which is not enough for them any more. Each plans around what
// the others hold, and who has no plan then gives its room back. That must come first: a plan around room that is given back in
// the same cycle evicts somebody for nothing. So the equals rehearse.

// holdersOf returns the jobs at the front that have the priority and hold room, all of those in a row.
func holdersOf(priority int32, turns []*model.Job) []*model.Job {
	row := 0
	for row < len(turns) && turns[row].Priority == priority && holds(turns[row]) {
		row++
	}
	return turns[:row]
}

// mostRehearsals bounds the work. Each rehearsal but the last makes one job give its room back, so that the next cycle begins
// with fewer of them.
const mostRehearsals = 8

// yield gives back the room of those equals that have no plan beside the others, and returns all in the order in which to plan:
// those that hold room still before those that do not any more.
func (a *action) yield(r *run, equals, lapsed []*model.Job) []*model.Job {
	var holders, others []*model.Job
	for holders = slices.Clone(equals); len(holders) > 1 && len(others) < mostRehearsals; {
		without := a.rehearse(r, holders, lapsed)
		if without < 0 {
			break
		}
		r.giveBack(holders[without])
		others = append(others, holders[without])
		holders = slices.Delete(holders, without, without+1)
	}
	return append(holders, others...)
}

// rehearse makes plans for the jobs, one beside the other, as their turns will, and returns the position of the first that has
// none, -1 when all have, or may have when they go on searching. Nothing of it lasts but the time it took: its looks at nodes are
// not taken from the budget, or there might be none left for the plans.
func (a *action) rehearse(r *run, holders, lapsed []*model.Job) (without int) {
	snapshot, without := r.session.Snapshot, -1
	kept := slices.Clone(snapshot.Holds())
	stage := r.aside()
	r.session.Try(func(statement *framework.Statement) *model.Refusal {
		for i, job := range holders {
			renewed := slices.Contains(lapsed, job) && start.New(r.session, job, r.largest, &stage.exact).Start(model.FutureRoom) == nil
			if !renewed {
				if _, known := a.past.recall(r.session, job); known || !stage.plans(statement, job) {
					without = i
					break
				}
			}
			snapshot.DropPromised(job.Key) // the books of the nodes show what it has now
		}
		snapshot.SetHolds(kept)
		return undone()
	})
	return without
}

// aside returns a run that goes on where this one stands, and leaves no trace in it.
func (r *run) aside() *run {
	guard := *r.guard
	guard.taken = slices.Clone(guard.taken)
	again := *r
	again.guard, again.drafts = &guard, maps.Clone(r.drafts)
	again.pools, again.boards, again.hopeless = map[int32]*pool{}, map[boardKey]*board{}, map[hopelessKey]*failed{}
	again.touched, again.failed, again.least = nil, nil, nil
	return &again
}

// plans tells whether there is a plan for the job, or its search would go on, and carries the plan out within the statement.
// Reviewers are not asked: what they would say of a plan that may not be made is not worth their time.
func (r *run) plans(statement *framework.Statement, job *model.Job) bool {
	if job.Patient || r.left <= 0 {
		return !job.Patient
	}
	pool := r.pool(job)
	if pool.pods == 0 {
		return false
	}
	r.session.See(job)
	s := r.newSearch(job, pool)
	if before := r.drafts[job.Key]; before != nil && before.version == job.Version {
		s = s.goOn(before)
	}
	found := s.find()
	r.touch(s)
	if found == nil || !s.agreed(found) {
		return s.cut || s.trial.Cut()
	}
	if refusal := s.apply(statement, found); refusal != nil {
		return false
	}
	s.account(found)
	return true
}
