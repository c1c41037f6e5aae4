package proportion

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// This file says which guarantees are not met when a session ends, and why, by what each job was refused with. No job is named:
// who may read a queue need not be allowed to read the jobs of all namespaces.

// findUnmet finds the queues with a job that waits although the queue would be within its guarantee with it. A job that gives up
// its right, by preemptionPolicy Never, is not counted.
func (s *sharing) findUnmet() {
	if !s.tree.Guaranteed() {
		return
	}
	jobs := make([]int, len(s.queues))
	for _, job := range s.waiting {
		if refusal := s.session.Refusal(job); refusal != nil && !job.NeverPreempts && hasGuarantee(job.InQueue()) {
			s.findUnmetBy(job, refusal, jobs)
		}
	}
	for i, queue := range s.queues {
		switch {
		case jobs[i] == 1:
			queue.Unmet.Message = "1 job waits within the guarantee; with it the queue would hold " + queue.Unmet.Message
		case jobs[i] > 1:
			queue.Unmet.Message = fmt.Sprintf("%d jobs wait within the guarantee; with one of them the queue would hold %s", jobs[i], queue.Unmet.Message)
		}
	}
}

// findUnmetBy looks at the queues above one job, and counts it in those that would be within their guarantees with it. What the
// limit of a queue does not allow, neither that queue owes nor those above it. A job of which no node could run the members
// counts only where there is not enough of what is guaranteed.
func (s *sharing) findUnmetBy(job *model.Job, refusal *model.Refusal, jobs []int) {
	s.bring(job, nil)
	needs := s.needsOf(job, slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status == model.Pipelined }))
	possible := s.fitsEmptyNodes(job)
	for queue := job.InQueue(); queue != nil; queue = queue.Above() {
		number := s.numbers[queue.Index]
		if slices.ContainsFunc(queue.Limit, func(limit model.ListedAmount) bool {
			ask := needs.At(limit.Position)
			return ask > 0 && s.tree.Part(number, limit.Position).Usage+ask > limit.Amount
		}) {
			return
		}
		if possible && s.tree.WithinGuarantee(number, needs, needs, s.worlds()) {
			jobs[queue.Index]++
			starts := string(model.WaitingForVictims) // a job that only waits for that says less than others
			if reason, why := unmetBy(refusal); jobs[queue.Index] == 1 || queue.Unmet.Reason == starts && reason != starts {
				queue.Unmet = &model.UnmetGuarantee{Reason: reason, Message: s.holdsWith(queue, needs) + "; " + why}
			}
		} else if queue.Unmet == nil {
			queue.Unmet = s.unmetAsWritten(queue, needs, refusal, possible)
		}
	}
}

// fitsEmptyNodes reports whether some node could run each of as many waiting members as the job needs, were it empty.
func (s *sharing) fitsEmptyNodes(job *model.Job) bool {
	return job.Count(func(task *model.Task) bool {
		return framework.Pipelined.Counts(task) || task.CountsInQueue() ||
			task.Status == model.Pending && !task.SchedulingGated && task.Invalid == nil && s.session.FitsEmptyNode(task)
	}) >= int(job.MinMember)
}

// unmetAsWritten says why a job that needs so much waits which is within the guarantee of a queue as its object has it, and not
// as the tree has it; nil when it is not, and when what lacks is not guaranteed. possible reports that nodes could run its
// members.
func (s *sharing) unmetAsWritten(queue *model.Queue, needs model.Resources, refusal *model.Refusal, possible bool) *model.UnmetGuarantee {
	var buffer [8]int
	number := s.numbers[queue.Index]
	deciding := s.tree.Deciding(buffer[:0], number, needs, s.worlds())
	reason, lacks, reduced := model.UnmetOversubscribed, "", ""
	for _, r := range deciding {
		with := s.tree.Part(number, r).Usage + needs.At(r)
		if with > guaranteeOf(queue, r) {
			return nil
		}
		lacks = cmp.Or(lacks, s.exceedsSupply(needs, r))
		if possible && with > s.tree.Kept(number, r) && s.isReduced(queue, r) {
			reduced = "there is not enough for all guarantees"
		}
	}
	why := cmp.Or(lacks, reduced)
	if refusal.Code == model.QueueLimit && possible {
		reason, why = model.UnmetLimit, refusal.Detail
	}
	if len(deciding) == 0 || why == "" {
		return nil
	}
	return &model.UnmetGuarantee{
		Reason: reason, Message: fmt.Sprintf("a job waits; with it the queue would hold %s; %s", s.holdsWith(queue, needs), why),
	}
}

// exceedsSupply says that a job needs more of a resource than there is; it returns nothing when it does not.
func (s *sharing) exceedsSupply(needs model.Resources, r int) string {
	supply := s.tree.Division(shares.Root, r).Supply
	if needs.At(r) <= supply {
		return ""
	}
	format := s.session.Snapshot.Dimensions.FormatAmount
	return fmt.Sprintf("its minimum needs %s, and all queues together can have %s", format(r, needs.At(r)), format(r, supply))
}

// isReduced reports whether the queue cannot have all that it asks for within its guarantee.
func (s *sharing) isReduced(queue *model.Queue, r int) bool {
	number := s.numbers[queue.Index]
	return s.tree.Kept(number, r) < min(guaranteeOf(queue, r), s.tree.Part(number, r).Ceiling)
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

// unmetBy returns why a job waits that has a right to capacity, in one word and in more. Where a limit is full, what forbids to
// make room below it says more than the limit.
func unmetBy(refusal *model.Refusal) (reason, why string) {
	limit := ""
	if refusal.Code == model.QueueLimit {
		limit = refusal.Detail + "; "
	}
	switch {
	case refusal.Code == model.WaitingForVictims:
		return string(refusal.Code), "it starts once the pods that are evicted for it have ended"
	case refusal.BlockedByBudgets:
		return model.UnmetBudget, limit + "disruption budgets forbid to evict the pods that would have to go"
	case refusal.BlockedByProtected:
		return model.UnmetProtected, limit + "pods that would have to go are never evicted, such as those of the system"
	case refusal.Code == model.QueueLimit:
		return model.UnmetLimit, refusal.Detail
	case refusal.Transient:
		return model.UnmetSearch, "the search for pods to evict goes on in the next cycle"
	case refusal.LacksPlace():
		return model.UnmetFragmentation, "no set of pods that may be evicted lets it start on the nodes that it can use"
	}
	return string(refusal.Code), "it is refused with this reason"
}
