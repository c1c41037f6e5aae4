package engine

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file has the rules about queues that are the engine's, whatever the tiers say: a job starts only in a queue that takes it,
// no start or nomination makes a queue hold more than its limit, and what is kept free below a limit is for one job. While there
// are no queues none of them costs anything.

// queueRefusal returns why the job may not start in its queue, nil when it may. What has begun is completed all the same, to its
// minimum, and capacity for which pods were evicted is still used by a job of a paused queue, for its minimum: with that its
// nominations end.
func (s *Session) queueRefusal(job *model.Job) *model.Refusal {
	if len(s.Snapshot.Queues) == 0 {
		return nil
	}
	refusal := s.Snapshot.QueueRefusal(job)
	if refusal == nil || s.completes(job) || refusal.Code == model.QueuePaused && hasNomination(job) {
		return nil
	}
	return refusal
}

// completes reports whether the job has begun and is below its minimum.
func (s *Session) completes(job *model.Job) bool {
	return s.Snapshot.HasBegun(job) && job.FirstUnmetMinimum(framework.Ready.Counts) != nil
}

func hasNomination(job *model.Job) bool {
	return slices.ContainsFunc(job.Tasks, (*model.Task).HoldsNomination)
}

// minimumOverLimit returns why the minimum of the job would exceed a limit of its queue, once what is being released is free; nil
// when it would not, or when that depends on the members. It goes by the least that the members which it needs may ask for, so
// that no job is refused that could start.
func (s *Session) minimumOverLimit(job *model.Job) *model.Refusal {
	queue := job.InQueue()
	if !queue.Limited() || hasNomination(job) {
		return nil
	}
	needs := int(job.MinMember) - job.Count(framework.Ready.Counts)
	if needs <= 0 {
		return nil
	}
	ask := func(position int) int64 { return model.LeastRequest(job, needs, position) }
	waits := s.withoutHeadroom(queue, job, Supposed{})
	exceeded, limit := queue.Exceeded(ask, false, model.FutureIdle, waits)
	if exceeded == nil {
		return nil
	}
	return s.limitRefusal(limitKey{
		queue: exceeded, limit: limit, ask: ask(limit.Position), of: "the minimum",
		kept:  exceeded.KeptFrom(waits, limit.Position, ask(limit.Position)),
		never: needs == int(job.MinMember) && ask(limit.Position) > limit.Amount,
	})
}

// FitsLimits reports whether no limit is too low for the minimum of the job and what it holds, whatever other jobs hold.
func (s *Session) FitsLimits(job *model.Job) bool {
	needs := int(job.MinMember) - job.Count(framework.Ready.Counts)
	for queue := job.InQueue(); queue != nil && needs > 0; queue = queue.Above() {
		if slices.ContainsFunc(queue.Limit, func(limit model.ListedAmount) bool {
			return model.LeastRequest(job, needs, limit.Position) > limit.Amount-heldBy(job, limit.Position)
		}) {
			return false
		}
	}
	return true
}

// FitsEmptyNode reports whether some node could run the task were it empty.
func (s *Session) FitsEmptyNode(task *model.Task) bool {
	fits, known := s.found.fitsEmpty[task.Shape]
	if !known {
		fits = slices.ContainsFunc(s.EligibleNodes(task), func(node *model.Node) bool { return node.Allocatable().Copies(task.Request) > 0 })
		s.found.fitsEmpty[task.Shape] = fits
	}
	return fits
}

// heldBy returns how much of a resource the job holds in its queue, model.MaxSum at most.
func heldBy(job *model.Job, position int) (sum int64) {
	for _, task := range job.Tasks {
		if task.CountsInQueue() {
			sum = min(sum+task.Request.At(position), model.MaxSum)
		}
	}
	return sum
}

// OverLimit returns why a queue would hold more than its limit if the task got the capacity; nil when none would. What is
// nominated to the task already counts once.
func (a *Ask) OverLimit(task *model.Task) *model.Refusal {
	queue := task.InQueue()
	if !queue.Limited() {
		return nil
	}
	if task.Devices != nil {
		if refusal := a.uncountedUnderLimit(queue, task); refusal != nil {
			return refusal
		}
	}
	return a.overLimit(queue, task.Request.At, task.CountsInQueue(), "a member")
}

// uncountedUnderLimit returns why a task may not start whose claims ask for devices of a class in a way that says not how many
// they will be, while the queue, or one above it, has a limit of that class.
func (a *Ask) uncountedUnderLimit(queue *model.Queue, task *model.Task) *model.Refusal {
	for ; queue != nil; queue = queue.Above() {
		for _, limit := range queue.Limit {
			if slices.Contains(task.Devices.Uncounted, limit.Position) {
				a.session.narrow(grounds{reach: ForJob})
				return &model.Refusal{Code: model.QueueLimit, Detail: fmt.Sprintf("%s, which a limit of %s in queue %q cannot count",
					task.Devices.Searched, a.session.Snapshot.Dimensions.Name(limit.Position), queue.Name)}
			}
		}
	}
	return nil
}

// SliceOverLimit is OverLimit of members of a job that start together.
func (a *Ask) SliceOverLimit(tasks []*model.Task) *model.Refusal {
	queue := tasks[0].InQueue()
	if !queue.Limited() {
		return nil
	}
	ask := func(position int) (sum int64) {
		for _, task := range tasks {
			if !task.CountsInQueue() {
				sum = min(sum+task.Request.At(position), model.MaxSum)
			}
		}
		return sum
	}
	return a.overLimit(queue, ask, false, "a slice")
}

func (a *Ask) overLimit(queue *model.Queue, ask func(position int) int64, counted bool, of string) *model.Refusal {
	s := a.session
	waits := s.withoutHeadroom(queue, a.Job, a.As)
	exceeded, limit := queue.Exceeded(ask, counted, a.Kind, waits)
	if exceeded == nil {
		return nil
	}
	a.session.narrow(grounds{reach: ForJob}) // jobs of other queues have other limits
	amount := ask(limit.Position)
	return s.limitRefusal(limitKey{
		queue: exceeded, limit: limit, ask: amount, of: of, kept: exceeded.KeptFrom(waits, limit.Position, amount),
	})
}

// KeepHeadroom keeps what the minima of the jobs ask for free below the limits of their queues, of the first job below each
// limit. Other jobs are refused what would leave less, as by the limit itself, but for jobs of a higher priority in the same
// queue, those of other queues within their guarantees, and what has begun. It is in force until it is called again, or the job
// starts.
func (s *Session) KeepHeadroom(jobs []*model.Job) {
	kept := make([]*model.Headroom, len(s.Snapshot.Queues))
	for _, job := range jobs {
		var headroom *model.Headroom
		for queue := job.InQueue(); queue != nil; queue = queue.Above() {
			if len(queue.Limit) == 0 || kept[queue.Index] != nil {
				continue
			}
			if headroom == nil {
				headroom = &model.Headroom{Job: job.Key, Priority: job.Priority}
				for own := job.InQueue(); own != nil; own = own.Above() {
					headroom.Queues = append(headroom.Queues, own.Name)
				}
				needs := int(job.MinMember) - job.Count(framework.Ready.Counts)
				headroom.Least = model.LeastRequests(job, needs, s.Snapshot.Dimensions.Len())
			}
			kept[queue.Index] = headroom
		}
	}
	s.Snapshot.SetHeadroom(kept)
	clear(s.found.precedes)
}

// withoutHeadroom returns the job if headroom below the limits of its queue may be kept from it: all of them are looked at, but
// not for a gang that has begun and lacks members, which does not wait for what is only kept free. Else it returns nil.
func (s *Session) withoutHeadroom(queue *model.Queue, job *model.Job, as Supposed) *model.Job {
	if !queue.HasHeadroom() {
		return nil
	}
	if job == nil || s.precedesAll(job, as) || len(s.slots.queueOrder) > 0 && s.precedesHolders(job) {
		return nil
	}
	return job
}

// precedesHolders reports whether the queue of the job has its turn before those of the jobs that have headroom below the limits
// above it, all of which are of other queues, or what is kept for them gives way to the job. It is so until something is decided.
func (s *Session) precedesHolders(job *model.Job) (precedes bool) {
	precedes, known := s.found.precedes[job.Key]
	if known {
		return precedes
	}
	precedes = true
	for queue := job.InQueue(); queue != nil && precedes; queue = queue.Above() {
		if queue.Headroom == nil {
			continue
		}
		holder := s.Snapshot.Job(queue.Headroom.Job)
		precedes = holder != nil && s.Snapshot.CrossesQueues(holder, job) &&
			(s.first(job, holder) == job || len(s.slots.reclaim) > 0 && s.slots.reclaim[0].GivesWay(holder, job))
	}
	s.found.precedes[job.Key] = precedes
	return precedes
}

// first returns which of two jobs is tried first.
func (s *Session) first(a, b *model.Job) *model.Job {
	for job := range s.InOrder([]*model.Job{a, b}) {
		return job
	}
	return nil
}

// limitKey is what a refusal by a limit says.
type limitKey struct {
	queue *model.Queue
	limit model.ListedAmount
	// used is what the queue holds, kept what is kept free for another job, ask what is asked for, by the minimum or a member of the
	// job.
	used, kept, ask int64
	of              string
	// never reports that the limit is too low for the job whatever the queue holds.
	never bool
}

// limitRefusal returns the refusal, the same for all jobs for which it says the same: many may wait for one limit.
func (s *Session) limitRefusal(key limitKey) *model.Refusal {
	key.used = key.queue.Used.At(key.limit.Position)
	if known := s.found.limits[key]; known != nil {
		return known
	}
	amount := func(n int64) string { return s.Snapshot.Dimensions.FormatAmount(key.limit.Position, n) }
	forOther := ""
	if key.kept > 0 {
		forOther = fmt.Sprintf(", %s are kept for a job that has waited for long", amount(key.kept))
	}
	detail := fmt.Sprintf("queue %q holds %s of its limit of %s%s, and %s needs %s more",
		key.queue.Name, amount(key.used), amount(key.limit.Amount), forOther, key.of, amount(key.ask))
	if key.never {
		detail = fmt.Sprintf("queue %q has a limit of %s, and the minimum needs %s: the job cannot start within it",
			key.queue.Name, amount(key.limit.Amount), amount(key.ask))
	}
	if s.found.limits == nil {
		s.found.limits = map[limitKey]*model.Refusal{}
	}
	// What would be evicted beyond what is asked for, so that something stays free, would be evicted for no start.
	s.found.limits[key] = &model.Refusal{Code: model.QueueLimit, Detail: detail, Evictable: key.kept == 0 && key.ask <= key.limit.Amount}
	return s.found.limits[key]
}

// checkQueues looks at every job that got capacity, and at the state after the statement.
//
// Invariants Q5, Q15: with what is placed no queue holds more than its limit, nor with what is nominated once the terminating
// pods are gone; no job starts in a queue that does not take it.
func (s *Session) checkQueues(operations []operation) *model.Refusal {
	if len(s.Snapshot.Queues) == 0 {
		return nil
	}
	var last *model.Job
	for _, op := range operations {
		room := model.Idle
		switch {
		case op.job == nil:
			continue
		case op.task.Status == model.Allocated:
		case op.task.Status == model.Pipelined:
			room = model.FutureIdle
		default:
			continue
		}
		if last != op.job {
			if refusal := s.mayNotStart(op.job); refusal != nil {
				return refusal
			}
		}
		last = op.job
		if refusal := (&Ask{session: s, Job: op.job, Kind: room}).OverLimit(op.task); refusal != nil {
			return refusal
		}
	}
	return nil
}

// mayNotStart returns why no job of the queue of a job starts; nil for one that has begun, and that is nominated in a paused one.
func (s *Session) mayNotStart(job *model.Job) *model.Refusal {
	if job.LostMembers || s.Snapshot.Begun[job.Key].MinMember > 0 {
		return nil
	}
	refusal := s.Snapshot.QueueRefusal(job)
	if refusal != nil && refusal.Code == model.QueuePaused && hasNomination(job) {
		return nil
	}
	return refusal
}
