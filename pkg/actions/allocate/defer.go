package allocate

import (
	"cmp"
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// This file defers jobs behind refused jobs of higher priority in their queue. Eviction is planned after this action: a lower
// job that starts before takes idle capacity that the plan counts on, and more pods are evicted than necessary, often those that
// have just started.

// outranking knows where eviction may give capacity to jobs of one queue that were refused.
type outranking struct {
	// refused are those whose nodes are not in needed yet, top is the highest priority of all that were refused.
	refused []*model.Job
	top     int64
	// needed is, by the node's index, the highest priority of a refused job that may get capacity there, highest that on any node.
	// shapes is the priority with which the nodes of a shape are in it.
	needed  []int64
	highest int64
	shapes  map[model.Shape]int64
	// behind is above the priority of the jobs that come after a deferred one: they would take the capacity that it fits in.
	behind int64
}

// noPriority is below every priority.
const noPriority = math.MinInt64

func newOutranking() *outranking {
	return &outranking{top: noPriority, highest: noPriority, behind: noPriority, shapes: map[model.Shape]int64{}}
}

// add takes note of a job that was refused.
func (o *outranking) add(job *model.Job, refusal *model.Refusal) {
	if refusal.Evictable && refusal.Code != model.WaitingForVictims {
		o.refused, o.top = append(o.refused, job), max(o.top, int64(job.Priority))
	}
}

// update adds the nodes of the jobs that were refused since. The actions behind this one are not asked before a job would
// start.
func (o *outranking) update(session *engine.Session) {
	for _, job := range o.refused {
		priority := int64(job.Priority)
		if !session.MayPreempt(job) {
			continue
		}
		if o.needed == nil {
			o.needed = slices.Repeat([]int64{noPriority}, len(session.Snapshot.Nodes))
		}
		o.highest = max(o.highest, priority)
		for _, task := range job.Candidates() {
			if known, ok := o.shapes[task.Shape]; ok && known >= priority {
				continue
			}
			o.shapes[task.Shape] = priority
			for _, node := range session.EligibleNodes(task) {
				o.needed[node.Index] = max(o.needed[node.Index], priority)
			}
		}
	}
	o.refused = o.refused[:0]
}

// defers reports whether the job must wait: one of the tasks has been placed, or holds a nomination, where a job of higher
// priority may get capacity, or a job before it is deferred.
func (o *outranking) defers(session *engine.Session, job *model.Job, tasks []*model.Task) bool {
	if o.behind > int64(job.Priority) {
		return true
	}
	if o.top <= int64(job.Priority) {
		return false
	}
	o.update(session)
	holds := session.HoldsNominations(job)
	defers := o.highest > int64(job.Priority) && slices.ContainsFunc(tasks, func(task *model.Task) bool {
		node := session.Snapshot.Node(cmp.Or(task.Node, task.Nominated))
		return (task.Status == model.Allocated || holds && task.Nominated != "") && node != nil && o.needed[node.Index] > int64(job.Priority)
	})
	if defers {
		o.behind = int64(job.Priority) + 1
	}
	return defers
}

// askAbove asks whether pods may be evicted for the jobs above that were refused, before a member of the job is placed: its
// members that run may be such pods, and are none once another one is placed.
func (r *cycle) askAbove(job *model.Job) {
	above := r.outrankingIn(job)
	if above.top > int64(job.Priority) && len(above.refused) > 0 && job.Count(place.IsSettledOnNode) > 0 {
		above.update(r.session)
	}
}

// place places the minimum of a job on idle capacity, unless the job is to be deferred.
func (r *cycle) place(job *model.Job, trial *place.Placer) *model.Refusal {
	if r.outrankingIn(job).top <= int64(job.Priority) {
		return trial.Place()
	}
	r.askAbove(job)
	return r.session.Try(func(*engine.Statement) *model.Refusal {
		if refusal := trial.Place(); refusal != nil {
			return refusal
		}
		return r.admit(job, trial.Members())
	})
}

// admit returns why a job that tasks were placed for is deferred, nil when it is not.
func (r *cycle) admit(job *model.Job, tasks []*model.Task) *model.Refusal {
	if !r.outrankingIn(job).defers(r.session, job, tasks) {
		return nil
	}
	r.session.Defer(job)
	return engine.Deferred
}
