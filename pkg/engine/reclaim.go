package engine

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file asks what a job may take from other queues, and judges each statement that takes something.

// Claims returns what the job may take from other queues, and by which rights it may not, and why.
func (s *Session) Claims(taker *model.Job) (claims []framework.Claim, why string) {
	if len(s.slots.reclaim) == 0 {
		return nil, "no plugin says what queues may take from each other"
	}
	defer s.charge(taker.Key, nil)
	return s.slots.reclaim[0].Claims(taker)
}

// ReclaimVictims returns which of the units of other queues may be evicted for the job as far as the engine and the victim
// pickers say, in their order; priorities do not count.
func (s *Session) ReclaimVictims(taker *model.Job, units []framework.EvictionUnit) []framework.EvictionUnit {
	return s.pick(taker, units, func(unit framework.EvictionUnit) bool {
		return unit.Job != nil && s.Snapshot.CrossesQueues(unit.Job, taker)
	})
}

// checkReclaim asks the plugin about the tasks of other queues that the statement has marked for eviction.
//
// Invariants Q8, Q15: a statement evicts pods of the job's own queue or of other queues, and of these only what the job has a
// right to, as a whole; what is freed is for no other job.
func (s *Session) checkReclaim(taker *model.Job, victims []*model.Task, operations []operation) *model.Refusal {
	if len(s.slots.reclaim) == 0 {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s of queue %q would be evicted for queue %q", victims[0],
			s.Snapshot.Job(victims[0].Job).Queue, taker.Queue)}
	}
	if len(victims) < len(s.changes.evicted) {
		return &model.Refusal{Code: framework.CodeMisuse, Detail: "pods of the job's queue and of others would be evicted together"}
	}
	for _, op := range operations {
		if op.task.Job != taker.Key && (op.task.Status == model.Allocated || op.task.Status == model.Pipelined) {
			return &model.Refusal{Code: framework.CodeMisuse, Detail: "pods of other queues would be evicted for several jobs together"}
		}
	}
	right, refusal := s.slots.reclaim[0].JudgeReclaim(taker, s.unitsOf(victims))
	if refusal == nil {
		s.changes.right = right
	}
	return refusal
}

// unitsOf returns the units that tasks were evicted as: whole jobs, or single members of a job that keeps others.
func (s *Session) unitsOf(victims []*model.Task) (units []framework.EvictionUnit) {
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
		units = append(units, framework.EvictionUnit{Job: job, Tasks: []*model.Task{task}, WholeGang: job.Count(holdsCapacity) == 0, OtherQueue: true})
	}
	return units
}

func holdsCapacity(task *model.Task) bool {
	return task.Status.Occupies() && task.Status != model.Releasing
}
