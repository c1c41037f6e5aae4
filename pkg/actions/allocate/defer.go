package allocate

import (
	"math"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
)

// This file defers jobs behind refused jobs of higher priority. Eviction is planned after this action: a lower job that starts
// before takes idle room that the plan counts on, and more pods are evicted than necessary, often those that have just started.

// deferral finds the lower jobs that must wait for one cycle.
//
// Invariant: no job is deferred in two cycles in a row.
type deferral struct {
	// refused are jobs without room whose nodes are not in needed yet.
	refused []*model.Job
	// needed is, by the node's index, the highest priority of a refused job that eviction may give room there, highest that on any
	// node. shapes is the priority with which the nodes of a shape are in it.
	needed  []int64
	highest int64
	shapes  map[model.Shape]int64
	// before are the jobs that were deferred in the last cycle, now those of this one.
	before, now map[model.JobKey]bool
}

// none is below every priority.
const none = math.MinInt64

// begin starts a cycle. A session that is the measure of another one defers the same jobs as that one.
func (d *deferral) begin(session *framework.Session) {
	d.refused, d.needed, d.highest, d.shapes = nil, nil, none, map[model.Shape]int64{}
	if !session.Afresh() {
		d.before, d.now = d.now, map[model.JobKey]bool{}
	}
}

// add takes note of a job without room that eviction may help.
func (d *deferral) add(job *model.Job, refusal *model.Refusal) {
	if refusal.Evictable && refusal.Code != model.WaitingForVictims {
		d.refused = append(d.refused, job)
	}
}

// mayDefer reports whether eviction may give room to a job of higher priority anywhere, and the job was not deferred before.
func (d *deferral) mayDefer(session *framework.Session, job *model.Job) bool {
	d.update(session)
	return d.highest > int64(job.Priority) && !d.before[job.Key]
}

// admit returns why the job has to wait, which has just been given room for these tasks; nil when it may start.
func (d *deferral) admit(session *framework.Session, job *model.Job, tasks []*model.Task) *model.Refusal {
	for _, task := range tasks {
		if task.Status != model.Placed || d.needed[session.Snapshot.Node(task.Node).Index] <= int64(job.Priority) {
			continue
		}
		if !session.Afresh() {
			d.now[job.Key] = true
		}
		session.WakeAt(session.Snapshot.Now)
		return &model.Refusal{
			Code: model.Reserved, Expires: true,
			Detail: "waits for one cycle, since pods may be evicted on " + task.Node + " for a job of higher priority",
		}
	}
	return nil
}

// update adds the nodes on which the jobs that were refused since may get room.
func (d *deferral) update(session *framework.Session) {
	for _, job := range d.refused {
		priority := int64(job.Priority)
		if !session.MayPreempt(job) {
			continue
		}
		if d.needed == nil {
			d.needed = slices.Repeat([]int64{none}, len(session.Snapshot.Nodes))
		}
		d.highest = max(d.highest, priority)
		for _, task := range job.Waiting() {
			if known, ok := d.shapes[task.Shape]; ok && known >= priority {
				continue
			}
			d.shapes[task.Shape] = priority
			for _, node := range session.Candidates(task) {
				d.needed[node.Index] = max(d.needed[node.Index], priority)
			}
		}
	}
	d.refused = d.refused[:0]
}

// place places the minimum of a job on idle room, unless it has to wait for one cycle.
func (r *run) place(job *model.Job, trial *start.Trial) *model.Refusal {
	if !r.deferral.mayDefer(r.session, job) {
		return trial.Start(model.IdleRoom)
	}
	return r.session.Try(func(*framework.Statement) *model.Refusal {
		if refusal := trial.Start(model.IdleRoom); refusal != nil {
			return refusal
		}
		return r.deferral.admit(r.session, job, trial.Members())
	})
}
