package preempt

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/internal/placement"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about equals: jobs of one priority that all hold capacity which is not enough for them any more. Each plans
// around what the others hold, and a job that has no plan then gives its capacity back. That must come first: a plan around
// capacity that is released in the same cycle evicts pods for nothing. So the equals rehearse.

// leadingHolders returns the jobs at the front that have the priority and hold room, all of those in a row.
func leadingHolders(priority int32, turns []*model.Job) []*model.Job {
	row := 0
	for row < len(turns) && turns[row].Priority == priority && holdsNomination(turns[row]) {
		row++
	}
	return turns[:row]
}

// maxDryRuns bounds the work. Each rehearsal but the last makes one job give its room back, so that the next cycle begins
// with fewer of them.
const maxDryRuns = 8

// orderEquals lets equals have their turns, or puts them off to the next cycle, when there are fewer who hold room.
func (a *action) orderEquals(r *run, equals, lapsed []*model.Job) {
	order, settled := a.releaseForEquals(r, equals, lapsed)
	plans := r.plans
	for _, job := range order {
		if settled {
			a.planJob(r, job, lapsed, r.plans > plans)
		} else {
			r.postpone(job)
		}
	}
}

// releaseForEquals releases the room of those equals that have no plan beside the others, and returns all in the order in
// which to plan: those that hold room still before those that do not any more. It is not settled when there may be more of
// those without a plan.
func (a *action) releaseForEquals(r *run, equals, lapsed []*model.Job) (order []*model.Job, settled bool) {
	holders, others := slices.Clone(equals), []*model.Job(nil)
	for len(holders) > 1 {
		without := a.dryRunEquals(r, holders, lapsed)
		if without < 0 {
			break
		}
		if len(others) == maxDryRuns {
			return append(holders, others...), false
		}
		r.giveBack(holders[without])
		others = append(others, holders[without])
		holders = slices.Delete(holders, without, without+1)
	}
	return append(holders, others...), true
}

// postpone leaves a job what it holds, and what becomes of it to the next cycle.
func (r *run) postpone(job *model.Job) {
	r.session.KeepNominations(job)
	r.failed = append(r.failed, &unplanned{
		job: job, why: "others of its priority release capacity first, continues in the next cycle", cut: true, skipped: true,
	})
}

// dryRunResult is what is to be expected of a job's turn.
type dryRunResult int8

const (
	// infeasible: it gives its room back.
	infeasible dryRunResult = iota
	// unfinished: its search comes to no end in this cycle, and it keeps its room.
	unfinished
	// planned: it is promised all that it needs.
	feasible
)

// dryRunEquals makes plans for the jobs, one beside the other, as their turns will, and returns the position of the first
// that has none, -1 when all have, or may have when they go on searching. Nothing of it lasts but the time it took: its looks
// at nodes are not taken from the budget, or there might be none left for the plans.
func (a *action) dryRunEquals(r *run, holders, lapsed []*model.Job) (without int) {
	snapshot, without := r.session.Snapshot, -1
	kept := slices.Clone(snapshot.Held())
	stage := r.fork()
	r.session.Try(func(statement *framework.Statement) *model.Refusal {
		defer snapshot.SetHeld(kept) // also when a plugin panics
		for i, job := range holders {
			switch a.dryRunJob(stage, statement, job, slices.Contains(lapsed, job)) {
			case infeasible:
				without = i
				return undone()
			case feasible:
				snapshot.ReleaseNominated(job.Key) // the accounting of the nodes show what it has now
			case unfinished:
			}
		}
		return undone()
	})
	return without
}

// dryRunJob plays the turn of one job within the statement; lapsed reports that its room was taken back a moment ago, and may
// not be there any more.
func (a *action) dryRunJob(stage *run, statement *framework.Statement, job *model.Job, lapsed bool) dryRunResult {
	if lapsed && placement.New(stage.session, job, stage.largest, &stage.exhaustiveBudget).Place(model.FutureIdle) == nil {
		stage.seen = false
		return feasible
	}
	if _, known := a.past.lookup(stage, job); known {
		return infeasible
	}
	expected := stage.dryRun(statement, job)
	if lapsed && expected == unfinished {
		return infeasible // it has nothing left to keep
	}
	return expected
}

// fork returns a run that goes on where this one stands, and leaves no trace in it.
func (r *run) fork() *run {
	guard := *r.guard
	guard.used = slices.Clone(guard.used)
	again := *r
	again.guard, again.drafts = &guard, maps.Clone(r.drafts)
	again.pools, again.boards, again.hopeless = map[int32]*candidateVictims{}, map[heapKey]*nodeCostHeap{}, map[infeasibleKey]*unplanned{}
	again.touched, again.failed, again.least = nil, nil, nil
	return &again
}

// dryRun reports whether there is a plan for the job, or its search would go on, and carries the plan out within the statement.
// Reviewers are not asked: what they would say of a plan that may not be made is not worth their time.
func (r *run) dryRun(statement *framework.Statement, job *model.Job) dryRunResult {
	if job.NeverPreempts {
		return infeasible
	}
	pool := r.pool(job)
	switch {
	case pool.pods == 0:
		return infeasible
	case r.budget <= 0:
		return unfinished
	}
	r.session.ApplyReservations(job)
	s := r.newSearch(job, pool).resume()
	found := s.find()
	r.markDirty(s)
	switch {
	case s.cut:
		return unfinished
	case found == nil || !s.agreed(found) || s.apply(statement, found) != nil:
		return infeasible
	}
	s.account(found)
	r.toggleNomination()
	return feasible
}
