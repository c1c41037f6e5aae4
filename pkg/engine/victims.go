package engine

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file has the four rules about victims that are the engine's, whatever the tiers say: no system pod is evicted, no pod of
// another queue without a right (reclaim.go), nor for a queue that starts nothing, no pod of the same queue and the same or a
// higher priority, but for jobs that overstay (overstay.go), and no gang is cut below its minimum.

// isSystemCritical returns why a task is never evicted for any job, nil when it may be.
func isSystemCritical(task *model.Task) *model.Refusal {
	switch {
	case !task.IsSystemCritical():
		return nil
	case task.Namespace == metav1.NamespaceSystem:
		return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is the system's", task)}
	}
	return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s is critical to the system", task)}
}

// Victims returns which of the units may be evicted for the preemptor, in their order: those that the engine allows and the
// victim pickers leave; none when no picker decides.
func (s *Session) Victims(preemptor *model.Job, units []framework.EvictionUnit) []framework.EvictionUnit {
	return s.pick(preemptor, units, func(unit framework.EvictionUnit) bool {
		return unit.Job != preemptor && (unit.Job == nil || !s.Snapshot.CrossesQueues(unit.Job, preemptor)) &&
			(unit.Priority() < preemptor.Priority || s.overstays(unit, preemptor))
	})
}

// pick returns which of the units that a rule allows the victim pickers leave: none for a job over which a plugin has panicked,
// and no unit of such a job. When pickers panic, the first job is to blame over whose units they do, and not over none, else
// the preemptor.
func (s *Session) pick(preemptor *model.Job, units []framework.EvictionUnit, allows func(framework.EvictionUnit) bool) (picked []framework.EvictionUnit) {
	if s.quarantined[preemptor.Key] != nil {
		return nil
	}
	allowed := slices.DeleteFunc(slices.Clone(units), func(unit framework.EvictionUnit) bool {
		return !allows(unit) || unit.Job != nil && s.quarantined[unit.Job.Key] != nil ||
			slices.ContainsFunc(unit.Tasks, func(task *model.Task) bool { return isSystemCritical(task) != nil })
	})
	for i, unit := range allowed {
		allowed[i].OtherQueue = unit.Job != nil && s.Snapshot.CrossesQueues(unit.Job, preemptor)
		allowed[i].Overstays = !allowed[i].OtherQueue && unit.Priority() >= preemptor.Priority
	}
	ask := func(units []framework.EvictionUnit) { picked, _ = firstDecidedTier(s.pickers(), preemptor, units) }
	alone := func(job *model.Job) {
		own := slices.DeleteFunc(slices.Clone(allowed), func(unit framework.EvictionUnit) bool { return unit.Job != job })
		if len(own) > 0 && !panics(func() { ask(nil) }) {
			ask(own)
		}
	}
	defer s.charge(preemptor.Key, alone, s.Snapshot.Jobs...)
	ask(allowed)
	return picked
}

// losesPart reports whether the job is below its minimum without what is marked for eviction, and what clients have deleted;
// unless only such members are marked, which go anyway.
func (s *Session) losesPart(job *model.Job) bool {
	loses := slices.ContainsFunc(job.Tasks, func(t *model.Task) bool {
		_, marked := s.changes.evicted[t]
		return marked && !t.Deleted()
	})
	return loses && job.FirstUnmetMinimum(func(t *model.Task) bool {
		return t.Status.CountsTowardMinimum() && (!t.Deleted() || t.Status == model.Succeeded)
	}) != nil
}

// checkEvictions looks at every job that loses a task, and at the job that the task is evicted for.
//
// Invariants I11, I12: a victim's priority is lower than that of a job of its queue which gets capacity by the statement, or it
// overstays there, or it is of another queue, which checkReclaim looks at; what is left of its job is nothing, its minimum, or
// more.
func (s *Session) checkEvictions(operations []operation) *model.Refusal {
	var highest *model.Job
	for _, op := range operations {
		if status := op.task.Status; status == model.Allocated || status == model.Pipelined {
			if job := s.Snapshot.Job(op.task.Job); highest == nil || job.Priority > highest.Priority {
				highest = job
			}
		}
	}
	seen := map[model.JobKey]bool{}
	var reclaimed []*model.Task // those of other queues, each once
	listed := map[*model.Task]bool{}
	for _, op := range operations {
		task := op.task
		if _, marked := s.changes.evicted[task]; !marked {
			continue
		}
		job := s.Snapshot.Job(task.Job)
		crosses := job != nil && highest != nil && s.Snapshot.CrossesQueues(job, highest)
		if crosses && !listed[task] {
			reclaimed, listed[task] = append(reclaimed, task), true
		}
		overstays := highest != nil && slices.Contains(s.reservations.overstayed[highest.Key], job)
		priority := task.Priority
		if job != nil {
			priority = job.PriorityOf(task)
		}
		if highest == nil || !crosses && (priority > highest.Priority || priority == highest.Priority && !overstays) {
			return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("pod %s would be evicted for no job above it", task)}
		}
		if task.Job == (model.JobKey{}) || seen[task.Job] {
			continue
		}
		seen[task.Job] = true
		if refusal := s.Snapshot.QueueRefusal(highest); refusal != nil {
			return refusal // the queue starts nothing, and loses nothing
		}
		left := job.Count(func(t *model.Task) bool { return t.Status.CountsTowardMinimum() && t.Status != model.Succeeded })
		shielded := !crosses && (job.Priority > highest.Priority || job.Priority == highest.Priority && !overstays)
		if left == 0 && shielded || left > 0 && s.losesPart(job) {
			return &model.Refusal{Code: framework.CodeMisuse, Detail: fmt.Sprintf("part of %s would be evicted", job.Key)}
		}
	}
	if len(reclaimed) > 0 {
		return s.checkReclaim(highest, reclaimed, operations)
	}
	return nil
}
