package backfill

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what is kept free below limits of queues. A gang whose queue is at its limit would be kept out indefinitely by
// small jobs that come later: each takes what another releases.

// keepHeadroom keeps headroom for the gangs that have waited for reserveAfter, in the order in which they are tried. As a
// reservation it is given up after reserveFor, and kept again after reserveAfter; the time since when a gang waits says which, so
// that a restart changes nothing.
func (r *run) keepHeadroom() {
	var due []*model.Job
	if len(r.session.Snapshot.Queues) > 0 && r.reserveAfter != never {
		for _, job := range r.session.Snapshot.Jobs {
			if job.HasGroup && !job.NothingPending && !job.WaitingSince.IsZero() && job.InQueue().Limited() &&
				r.hasTurnAtLimits(job) && r.mayFitWithinLimits(job) {
				due = append(due, job)
			}
		}
	}
	r.session.KeepHeadroom(slices.Collect(r.session.InOrder(due)))
}

// hasTurnAtLimits reports whether headroom is kept for the job now, and says until when.
func (r *run) hasTurnAtLimits(job *model.Job) bool {
	begin := r.dueAt(job)
	if begin == never {
		return false
	}
	if begin > r.now {
		r.changesAt(begin)
		return false
	}
	within := (r.now - begin) % (r.reserveFor + r.reserveAfter)
	if within >= r.reserveFor {
		r.changesAt(r.now + r.reserveFor + r.reserveAfter - within)
		return false
	}
	r.changesAt(r.now + r.reserveFor - within)
	return true
}

// mayFitWithinLimits reports whether the job waits for nothing but capacity, of nodes or below limits, and could have it: no
// limit is too low for its minimum and what it holds, and each of its members fits a node that is empty.
func (r *run) mayFitWithinLimits(job *model.Job) bool {
	needs := int(job.MinMember) - job.Count(framework.Ready.Counts)
	if needs <= 0 || slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" }) {
		return false
	}
	if r.session.ValidateAlone(job) != nil {
		return false
	}
	if !r.session.FitsLimits(job) {
		return false
	}
	return !slices.ContainsFunc(job.Pending(), func(task *model.Task) bool { return !r.session.FitsEmptyNode(task) })
}

// explainHeadroom says on the refusals of jobs what is kept for them.
func (r *run) explainHeadroom(waiting []*model.Job) {
	for _, job := range waiting {
		refusal := r.session.Refusal(job)
		if refusal == nil {
			continue
		}
		for queue := job.InQueue(); queue != nil; queue = queue.Above() {
			if queue.Headroom != nil && queue.Headroom.Job == job.Key {
				r.note(job, "what becomes free below its limit is kept for it")
				break
			}
		}
	}
}
