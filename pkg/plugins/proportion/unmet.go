package proportion

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says which guarantees are not met when a session ends, and why, by what each job was refused with. No job is named:
// who may read a queue need not be allowed to read the jobs of all namespaces.

// findUnmet finds the queues with a job that waits although the queue would be within its guarantee with it. A job that gives up
// its right, by preemptionPolicy Never, is not counted.
func (s *sharing) findUnmet() {
	if !s.tree.Guaranteed() {
		return
	}
	waiting := make([]int, len(s.queues))
	for _, job := range s.counted {
		refusal := s.session.Refusal(job)
		if refusal == nil || job.NeverPreempts || !hasGuarantee(job.InQueue()) {
			continue
		}
		s.bring(job, nil)
		needs := s.needsOf(job, slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status == model.Pipelined }))
		for queue := job.InQueue(); queue != nil; queue = queue.Above() {
			number := s.numbers[queue.Index]
			if !s.tree.WithinGuarantee(number, needs, needs, s.worlds()) {
				if queue.Unmet == nil {
					queue.Unmet = s.oversubscribed(queue, needs)
				}
				continue
			}
			waiting[queue.Index]++
			starts := string(model.WaitingForVictims) // a job that only waits for that says less than others
			if reason, why := unmetBy(refusal); waiting[queue.Index] == 1 || queue.Unmet.Reason == starts && reason != starts {
				queue.Unmet = &model.UnmetGuarantee{Reason: reason, Message: s.holdsWith(queue, needs) + "; " + why}
			}
		}
	}
	for i, queue := range s.queues {
		switch jobs := waiting[i]; {
		case jobs == 1:
			queue.Unmet.Message = "1 job waits within the guarantee; with it the queue would hold " + queue.Unmet.Message
		case jobs > 1:
			queue.Unmet.Message = fmt.Sprintf("%d jobs wait within the guarantee; with one of them the queue would hold %s", jobs, queue.Unmet.Message)
		}
	}
}

// oversubscribed says that a job which needs so much is within the guarantee of a queue as its object has it, and not as it is
// reduced, since there is not enough for all guarantees; nil when that is not so.
func (s *sharing) oversubscribed(queue *model.Queue, needs model.Resources) *model.UnmetGuarantee {
	var buffer [8]int
	var unmet *model.UnmetGuarantee
	number := s.numbers[queue.Index]
	for _, r := range s.tree.Deciding(buffer[:0], number, needs, s.worlds()) {
		with := s.tree.Part(number, r).Usage + needs.At(r)
		switch {
		case with > min(guaranteeOf(queue, r), s.tree.Part(number, r).Ceiling): // beyond it, or beyond a limit below the queue
			return nil
		case unmet == nil && with > s.tree.Kept(number, r) && s.isReduced(queue, r):
			unmet = &model.UnmetGuarantee{Reason: model.UnmetOversubscribed, Message: fmt.Sprintf(
				"a job waits; with it the queue would hold %s, since there is not enough for all guarantees", s.ofGuarantee(queue, r, with))}
		}
	}
	return unmet
}

// isReduced reports whether the queue cannot have all that it asks for within its guarantee.
func (s *sharing) isReduced(queue *model.Queue, r int) bool {
	number := s.numbers[queue.Index]
	return s.tree.Division(s.parentOf(queue), r).Scaled && s.tree.Kept(number, r) < min(guaranteeOf(queue, r), s.tree.Part(number, r).Ceiling)
}

// guaranteeOf returns the queue's own.
func guaranteeOf(queue *model.Queue, r int) int64 {
	for _, guarantee := range queue.Guarantee {
		if guarantee.Position == r {
			return guarantee.Amount
		}
	}
	return 0
}

// ofGuarantee says how much of its guarantee a queue would hold: "4 of its guarantee of 8 cpu, reduced to 3 cpu".
func (s *sharing) ofGuarantee(queue *model.Queue, r int, amount int64) string {
	words := s.ofWhat(r, amount, " of its guarantee of ", guaranteeOf(queue, r))
	if s.isReduced(queue, r) {
		words += ", reduced to " + s.session.Snapshot.Dimensions.FormatAmount(r, s.tree.Kept(s.numbers[queue.Index], r))
	}
	return words
}

// hasGuarantee reports whether a queue, or one above it, has a guarantee of its own.
func hasGuarantee(queue *model.Queue) bool {
	for ; queue != nil; queue = queue.Above() {
		if len(queue.Guarantee) > 0 {
			return true
		}
	}
	return false
}

// holdsWith says how much a queue would hold of what decides with a job that needs so much.
func (s *sharing) holdsWith(queue *model.Queue, needs model.Resources) string {
	var buffer [8]int
	number := s.numbers[queue.Index]
	r := s.tree.Deciding(buffer[:0], number, needs, s.worlds())[0]
	return s.ofGuarantee(queue, r, s.tree.Part(number, r).Usage+needs.At(r))
}

// unmetBy returns why a job waits that has a right to capacity, in one word and in more.
func unmetBy(refusal *model.Refusal) (reason, why string) {
	switch {
	case refusal.Code == model.WaitingForVictims:
		return string(refusal.Code), "it starts once the pods that are evicted for it have ended"
	case refusal.Code == model.QueueLimit:
		return model.UnmetLimit, refusal.Detail
	case refusal.BlockedByBudgets:
		return model.UnmetBudget, "disruption budgets forbid to evict the pods that would have to go"
	case refusal.BlockedByProtected:
		return model.UnmetProtected, "pods that would have to go are never evicted, such as those of the system"
	case refusal.Transient:
		return model.UnmetSearch, "the search for pods to evict goes on in the next cycle"
	case refusal.Code == model.InsufficientResources, refusal.Code == model.NodesFiltered:
		return model.UnmetFragmentation, "no set of pods that may be evicted lets it start on the nodes that it can use"
	}
	return string(refusal.Code), "it is refused with this reason"
}
