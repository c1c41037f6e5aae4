package framework

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what a job may take from other queues. Priorities are no matter there: a plugin says which pods may go by which
// right, and the engine asks it about each statement as a whole.

// Reclaimer says which pods may be evicted for jobs of other queues. Combined: the first one answers; without one no pod may.
type Reclaimer interface {
	Plugin
	// Claims returns what the job may take as the session stands, a claim for each of its rights, the one to be tried first
	// first, and why it has no others; none when it may take nothing. Claims hold until something is decided.
	Claims(taker *model.Job) (claims []Claim, why string)
	// JudgeReclaim returns the right by which the units may have been evicted for the job, or why not. It is asked at the end of
	// each statement that evicts pods of other queues: they are marked for eviction, and the members have their capacity.
	JudgeReclaim(taker *model.Job, victims []EvictionUnit) (model.Right, *model.Refusal)
	// GuaranteeFor returns the first queue, from the job's up, that is within its guarantee with the minimum of the job, as the
	// session stands; nil when none is.
	GuaranteeFor(job *model.Job) *model.Queue
	// GivesWay reports whether what is kept for a job gives way to a job of another queue, as the session stands: with the minimum
	// of each, its own queue would hold more than its share and that of the other no more than its own.
	GivesWay(holder, job *model.Job) bool
}

// Claim is what a job may take by one right.
type Claim interface {
	// Right is that right.
	Right() model.Right
	// From reports whether a job of the queue can have a unit that the claim takes.
	From(queue *model.Queue) bool
	// Takes reports whether a unit may go in addition to what is lost by then, by the queues of the jobs that lose it.
	//
	// Invariant: what may go in addition to some units may go in addition to a part of them.
	Takes(unit *EvictionUnit, lost map[*model.Queue]model.Resources) bool
	// Keeps says what the queues hold that the job could have units of, and why none of these goes: it names queues and amounts, no
	// job. stays has, for each unit that the claim takes, why it stays.
	Keeps(units []EvictionUnit, stays []string) string
	// Price orders units by how much their queues can spare them.
	Price(unit *EvictionUnit) Price
	// Allows reports whether all of the units may go, and no others, as the session stands: they are marked for eviction, and the
	// members have their capacity.
	Allows(victims []EvictionUnit) bool
}

// Price is what it costs the other queues that units go: the lower is preferred. The zero Price is that of victims of the job's
// own queue.
type Price struct {
	// BelowShare is 1 when a queue would be below its share without the unit alone, else 0.
	BelowShare int
	// Gangs is how many gangs end that have their minimum.
	Gangs int
	// Rank is the place of the unit's queue among those that may give, from 1; the one that is most above its share comes first.
	Rank int
}

// Claims returns what the job may take from other queues, and by which rights it may not, and why.
func (s *Session) Claims(taker *model.Job) (claims []Claim, why string) {
	if len(s.slots.reclaim) == 0 {
		return nil, "no plugin says what queues may take from each other"
	}
	s.currentJob = taker.Key
	return s.slots.reclaim[0].Claims(taker)
}

// ReclaimVictims returns which of the units of other queues may be evicted for the job as far as the engine and the victim
// pickers say, in their order; priorities do not count.
func (s *Session) ReclaimVictims(taker *model.Job, units []EvictionUnit) []EvictionUnit {
	if s.currentJob = taker.Key; s.quarantined[taker.Key] != nil {
		return nil
	}
	allowed := slices.DeleteFunc(slices.Clone(units), func(unit EvictionUnit) bool {
		return unit.Job == nil || !s.Snapshot.CrossesQueues(unit.Job, taker) || s.quarantined[unit.Job.Key] != nil ||
			slices.ContainsFunc(unit.Tasks, func(task *model.Task) bool { return isSystemCritical(task) != nil })
	})
	for i := range allowed {
		allowed[i].OtherQueue = true
	}
	s.picking = allowed
	picked, _ := firstDecidedTier(s.pickers(), taker, allowed)
	s.picking = nil
	return picked
}

// checkReclaim asks the plugin about the tasks of other queues that the statement has marked for eviction.
//
// Invariants Q8, Q15: a statement evicts pods of the job's own queue or of other queues, and of these only what the job has a
// right to, as a whole; what is freed is for no other job.
func (s *Session) checkReclaim(taker *model.Job, victims []*model.Task, operations []operation) *model.Refusal {
	if len(s.slots.reclaim) == 0 {
		return &model.Refusal{Code: CodeMisuse, Detail: fmt.Sprintf("pod %s of queue %q would be evicted for queue %q", victims[0],
			s.Snapshot.Job(victims[0].Job).Queue, taker.Queue)}
	}
	if len(victims) < len(s.evicted) {
		return &model.Refusal{Code: CodeMisuse, Detail: "pods of the job's queue and of others would be evicted together"}
	}
	for _, op := range operations {
		if op.task.Job != taker.Key && (op.task.Status == model.Allocated || op.task.Status == model.Pipelined) {
			return &model.Refusal{Code: CodeMisuse, Detail: "pods of other queues would be evicted for several jobs together"}
		}
	}
	s.currentJob = taker.Key
	right, refusal := s.slots.reclaim[0].JudgeReclaim(taker, s.unitsOf(victims))
	if refusal == nil {
		s.right = right
	}
	return refusal
}

// unitsOf returns the units that tasks were evicted as: whole jobs, or single members of those of which some stay.
func (s *Session) unitsOf(victims []*model.Task) (units []EvictionUnit) {
	place := map[model.JobKey]int{}
	for _, task := range victims {
		job := s.Snapshot.Job(task.Job)
		at, known := place[task.Job]
		switch {
		case known:
			units[at].Tasks = append(units[at].Tasks, task)
			continue
		case job.Count(holdsCapacity) == 0:
			place[task.Job] = len(units)
		}
		units = append(units, EvictionUnit{Job: job, Tasks: []*model.Task{task}, WholeGang: job.Count(holdsCapacity) == 0, OtherQueue: true})
	}
	return units
}

func holdsCapacity(task *model.Task) bool {
	return task.Status.Occupies() && task.Status != model.Releasing
}
