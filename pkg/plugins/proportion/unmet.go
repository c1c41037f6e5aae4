package proportion

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/shares"
)

// This file says which guarantees are not met when a session ends, and why, by what each job was refused with; and which cannot
// all be met together, whether or not a job waits. No job is named: who may read a queue need not be allowed to read the jobs of
// all namespaces.

// findUnmet finds the queues with a job that waits although the queue would be within its guarantee with it. A job that gives up
// its right, by preemptionPolicy Never, is not counted.
func (s *sharing) findUnmet() {
	jobs, lower := make([]int, len(s.queues)), map[rankOfJobs]model.Resources{}
	for _, job := range s.waiting {
		if refusal := s.view.Refusal(job); refusal != nil && !job.NeverPreempts && hasGuarantee(job.InQueue()) {
			s.findUnmetBy(job, refusal, jobs, lower)
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

// findUnmetBy looks at the queues above one job, and counts it in those that would be within their guarantees with it. Where one
// lacks a part of its guarantee, so does a job that would be within it without the jobs of lower priority in its own queue: a
// start evicts those, or borrowers, and never both. What the limit of a queue does not allow, neither that queue owes nor those
// above it. A job of which no node could run the members counts only where there is not enough of what is guaranteed.
func (s *sharing) findUnmetBy(job *model.Job, refusal *model.Refusal, jobs []int, lower map[rankOfJobs]model.Resources) {
	s.bring(job, nil)
	needs := s.needsOf(job, slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Status == model.Pipelined }))
	instead := needs.Clone() // of the jobs of lower priority
	for queue := job.InQueue(); queue != nil; queue = queue.Above() {
		if s.lacks(queue, needs) {
			instead.Sub(s.heldBelow(job, lower))
			break
		}
	}
	possible, limited := s.fitsEmptyNodes(job), false
	for queue := job.InQueue(); queue != nil && !s.exceedsLimit(queue, needs, instead); queue = queue.Above() {
		number := s.numbers[queue.Index]
		limited = limited || s.exceedsLimit(queue, needs, needs)
		within := possible && !limited && s.tree.WithinGuarantee(number, needs, needs, s.worlds())
		switch {
		case within, possible && s.lacks(queue, needs) && s.tree.WithinGuarantee(number, needs, instead, s.worlds()):
			jobs[queue.Index]++
			reason, why := unmetBy(refusal)
			if !within && !refusal.BlockedByBudgets && refusal.Until.IsZero() && refusal.Code != model.WaitingForVictims {
				reason, why = model.UnmetLowerJobs, "one start evicts pods of its own queue or of others, never of both"
			}
			starts := string(model.WaitingForVictims) // a job that only waits for that says less than others
			if jobs[queue.Index] == 1 || queue.Unmet.Reason == starts && reason != starts {
				queue.Unmet = &model.UnmetGuarantee{Reason: reason, Message: s.holdsWith(queue, needs, instead, within) + "; " + why}
			}
		case queue.Unmet == nil && !limited:
			queue.Unmet = s.unmetAsWritten(queue, needs, refusal, possible)
		}
	}
}

// exceedsLimit reports whether a queue would hold more than its limit of something that a job needs, when it holds so much more.
func (s *sharing) exceedsLimit(queue *model.Queue, needs, more model.Resources) bool {
	return slices.ContainsFunc(queue.Limit, func(limit model.ListedAmount) bool {
		r := limit.Position
		return needs.At(r) > 0 && s.tree.Part(s.numbers[queue.Index], r).Usage+more.At(r) > limit.Amount
	})
}

// lacks reports whether a queue lacks a part of its guarantee, of what decides about a job that needs so much.
func (s *sharing) lacks(queue *model.Queue, needs model.Resources) bool {
	number := s.numbers[queue.Index]
	return slices.ContainsFunc(s.deciding(queue, needs), func(r int) bool { return s.tree.Part(number, r).Usage < s.tree.Kept(number, r) })
}

// deciding returns the resources that decide whether a job that needs so much is within the guarantee of a queue.
func (s *sharing) deciding(queue *model.Queue, needs model.Resources) []int {
	return s.tree.Deciding(nil, s.numbers[queue.Index], needs, s.worlds())
}

// rankOfJobs is a priority in a queue.
type rankOfJobs struct {
	queue    *model.Queue
	priority int32
}

// heldBelow returns what jobs of lower priority hold in the queue of a job; known has what was found before.
func (s *sharing) heldBelow(job *model.Job, known map[rankOfJobs]model.Resources) model.Resources {
	rank := rankOfJobs{job.InQueue(), job.Priority}
	held, ok := known[rank]
	if !ok {
		held = make(model.Resources, s.dimensions)
		for _, other := range s.view.Snapshot().Jobs {
			if other.InQueue() != rank.queue {
				continue
			}
			for _, task := range other.Tasks {
				if task.CountsInQueue() && task.Status != model.Releasing && other.PriorityOf(task) < rank.priority {
					held.Add(task.Request)
				}
			}
		}
		known[rank] = held
	}
	return held
}

// fitsEmptyNodes reports whether some node could run each of as many waiting members as the job needs, were it empty.
func (s *sharing) fitsEmptyNodes(job *model.Job) bool {
	return job.Count(func(task *model.Task) bool {
		return framework.Pipelined.Counts(task) || task.CountsInQueue() ||
			task.Status == model.Pending && !task.SchedulingGated && task.Invalid == nil && s.view.FitsEmptyNode(task)
	}) >= int(job.MinMember)
}

// unmetAsWritten says why a job that needs so much waits which is within the guarantee of a queue as its object has it, and not
// as the tree has it; nil when it is not, and when what lacks is not guaranteed. possible reports that nodes could run its
// members.
func (s *sharing) unmetAsWritten(queue *model.Queue, needs model.Resources, refusal *model.Refusal, possible bool) *model.UnmetGuarantee {
	number, deciding := s.numbers[queue.Index], s.deciding(queue, needs)
	reason, why := model.UnmetOversubscribed, ""
	for _, r := range deciding {
		with := s.tree.Part(number, r).Usage + needs.At(r)
		if with > guaranteeOf(queue, r) {
			return nil
		}
		switch {
		case why != "":
		case s.exceedsSupply(needs, r) != "":
			why = s.sums(nil, r)
		case possible && with > s.tree.Kept(number, r) && s.isReduced(queue, r):
			why = s.sums(queue.Above(), r)
		}
	}
	if refusal.Code == model.QueueLimit && possible {
		reason, why = model.UnmetLimit, refusal.Detail
	}
	if len(deciding) == 0 || why == "" {
		return nil
	}
	return &model.UnmetGuarantee{
		Reason: reason, Message: fmt.Sprintf("a job waits; with it the queue would hold %s; %s", s.holdsWith(queue, needs, needs, true), why),
	}
}

// findOversubscribed says of which queues the guarantee is more than each would have if all queues asked for all that they are
// guaranteed: what there is is divided once more, by that. The tree then has no shares any longer.
func (s *sharing) findOversubscribed() {
	supply, guarantees := make([]int64, s.dimensions), make([]model.Resources, len(s.queues))
	for r := range supply {
		supply[r] = s.tree.Division(shares.Root, r).Supply
	}
	for i, queue := range s.queues {
		for _, guarantee := range queue.Guarantee {
			guarantees[i].Set(guarantee.Position, guarantee.Amount)
		}
	}
	s.setAmounts(s.view.Snapshot(), make([]model.Resources, len(s.queues)), guarantees)
	s.tree.Compute(supply)
	for i, queue := range s.queues {
		if s.numbers[i] == absent {
			continue
		}
		for _, r := range slices.Concat(s.devices, s.ordinary) {
			if s.isReduced(queue, r) {
				queue.Oversubscribed = fmt.Sprintf("%s; if all queues ask for theirs, this one has %s", s.sums(queue.Above(), r),
					s.ofWhat(r, s.tree.Kept(s.numbers[i], r), " of its guarantee of ", guaranteeOf(queue, r)))
				break
			}
		}
	}
}

// sums says how much the queues with one parent, nil for the topmost, are guaranteed together, and how much there is for them.
func (s *sharing) sums(parent *model.Queue, r int) string {
	number, siblings, has := shares.Root, "all queues", "there are "
	if parent != nil {
		number, siblings, has = s.numbers[parent.Index], fmt.Sprintf("the queues in %q", parent.Name), "it has "
	}
	sum, format := int64(0), s.view.Snapshot().Dimensions.FormatAmount
	for i, queue := range s.queues {
		if s.numbers[i] != absent && queue.Above() == parent {
			sum = plus(sum, s.tree.Part(s.numbers[i], r).Guarantee)
		}
	}
	return fmt.Sprintf("the guarantees of %s are %s together, and %s%s", siblings, format(r, sum), has, format(r, s.tree.Division(number, r).Supply))
}

// exceedsSupply says that a job needs more of a resource than there is; it returns nothing when it does not.
func (s *sharing) exceedsSupply(needs model.Resources, r int) string {
	supply := s.tree.Division(shares.Root, r).Supply
	if needs.At(r) <= supply {
		return ""
	}
	format := s.view.Snapshot().Dimensions.FormatAmount
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
		words += ", reduced to " + s.view.Snapshot().Dimensions.FormatAmount(r, s.tree.Kept(s.numbers[queue.Index], r))
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

// holdsWith says how much a queue would hold of what decides with a job that needs so much; with the job instead of those of
// lower priority in its queue, unless it is within the guarantee beside them.
func (s *sharing) holdsWith(queue *model.Queue, needs, instead model.Resources, within bool) string {
	number, deciding := s.numbers[queue.Index], s.deciding(queue, needs)
	if within {
		return s.ofGuarantee(queue, deciding[0], s.tree.Part(number, deciding[0]).Usage+needs.At(deciding[0]))
	}
	r := deciding[max(0, slices.IndexFunc(deciding, func(r int) bool { return instead.At(r) < needs.At(r) }))]
	return s.ofGuarantee(queue, r, s.tree.Part(number, r).Usage+instead.At(r)) + " without jobs of lower priority, which hold " +
		s.view.Snapshot().Dimensions.FormatAmount(r, needs.At(r)-instead.At(r))
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
	case !refusal.Until.IsZero():
		return model.UnmetSearch, "the search for pods to evict goes on in the next cycle"
	case refusal.LacksPlace():
		return model.UnmetFragmentation, "no set of pods that may be evicted lets it start on the nodes that it can use"
	}
	return string(refusal.Code), "it is refused with this reason"
}
