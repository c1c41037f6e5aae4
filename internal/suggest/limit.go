package suggest

import (
	"fmt"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// suggestLimit returns what would help a job that a limit of its queue keeps waiting: higher limits, or a lower minimum.
func (q *search) suggestLimit() Suggestions {
	if q.session.ValidateJob(q.job) == nil && q.isSchedulable() { // preemption is about to make room within the limit
		return nil
	}
	var advice Suggestions
	if raise := q.raiseLimits(); len(raise) > 0 && q.left > 0 {
		advice = append(advice, raise)
	}
	for _, find := range []func() *Change{q.lowerMinimum(q.placed), q.lowerRole} {
		if own := q.verified(find); own != nil {
			return append(advice, Suggestion{own})
		}
	}
	return advice
}

// raiseLimits returns the lowest limits with which the job would start, one change for each queue; none when it does not start
// without limits either.
func (q *search) raiseLimits() (raise Suggestion) {
	limited := q.limitedQueues()
	before := make([][]model.ListedAmount, len(limited))
	for i, queue := range limited {
		before[i] = queue.Limit
		queue.Limit = slices.Clone(queue.Limit)
		for j := range queue.Limit {
			queue.Limit[j].Amount = math.MaxInt64
		}
		defer func() { queue.Limit = before[i] }()
	}
	if !q.isApplicable() || !q.lowerToHeld(limited, before) {
		return nil
	}
	for i, queue := range limited {
		for j := range queue.Limit {
			if limit := &queue.Limit[j]; limit.Amount > before[i][j].Amount {
				q.shrinkLimit(&limit.Amount, before[i][j].Amount, granularity(limit.Position))
			}
		}
		if !slices.Equal(queue.Limit, before[i]) {
			raise = append(raise, raisedLimit(q.session.Snapshot.Dimensions, queue, before[i]))
		}
	}
	return raise
}

func (q *search) limitedQueues() (limited []*model.Queue) {
	for queue := q.job.InQueue(); queue != nil; queue = queue.Above() {
		if len(queue.Limit) > 0 {
			limited = append(limited, queue)
		}
	}
	return limited
}

// lowerToHeld tries the job without limits, and sets each to what its queue would hold then, or as it was where that is more.
// It returns false when the job does not start.
func (q *search) lowerToHeld(limited []*model.Queue, before [][]model.ListedAmount) (starts bool) {
	q.left -= 1 + len(q.job.Pending())
	q.whatIf(func(*framework.Statement) {
		if starts = place.New(q.session, q.job, q.largest, &q.exact).Place(q.capacity()) == nil; !starts {
			return
		}
		for i, queue := range limited {
			for j := range queue.Limit {
				limit := &queue.Limit[j]
				held := queue.Used.At(limit.Position) - queue.Releasing.At(limit.Position) + queue.KeptFrom(q.job, limit.Position, 0)
				if limit.Amount = before[i][j].Amount; q.asksFor(limit.Position) {
					limit.Amount = max(limit.Amount, rounding(limit.Position, held))
				}
			}
		}
	})
	return starts
}

func (q *search) asksFor(position int) bool {
	return slices.ContainsFunc(q.job.Tasks, func(task *model.Task) bool { return task.Request.At(position) > 0 })
}

// shrinkLimit finds the lowest amount of a limit, above what it was, with which the job starts; with the present one it does.
func (q *search) shrinkLimit(amount *int64, was, unit int64) {
	high, low := *amount/unit, was/unit // in units: high does, low is as it was
	for guess := high - 1; low < high; guess = low + (high-low)/2 {
		if *amount = max(was, guess*unit); q.isSchedulable() {
			high = guess
		} else if low = guess + 1; q.left <= 0 {
			return
		}
	}
	*amount = max(was, high*unit)
}

// raisedLimit says "raise the limit of queue a from 4 cpu to 6 cpu".
func raisedLimit(dimensions *model.ResourceIndex, queue *model.Queue, before []model.ListedAmount) *Change {
	var words []string
	to := model.Resources{}
	for j, limit := range queue.Limit {
		if was := before[j].Amount; limit.Amount > was {
			to.Set(limit.Position, limit.Amount)
			words = append(words, fmt.Sprintf("from %s to %s",
				dimensions.FormatAmount(limit.Position, was), dimensions.FormatAmount(limit.Position, limit.Amount)))
		}
	}
	return &Change{
		Kind: RaiseLimit, Queue: queue.Name, Request: dimensions.List(to),
		words: fmt.Sprintf("raise the limit of queue %s %s", queue.Name, listed(words)),
	}
}
