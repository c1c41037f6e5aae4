package backfill

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reserveForOverdueGangs makes reservations for gangs whose time has come, in job order, and wakes the loop when that of
// another one does.
func (r *run) reserveForOverdueGangs(waiting []*model.Job) {
	if r.reserveAfter == never || r.reservations == 0 {
		return
	}
	var due []*model.Job
	next := int64(never)
	for _, job := range waiting {
		switch at := r.reservationDue(job); {
		case at == never || r.holds(job) != nil:
		case at > r.now:
			next = min(next, at)
		default:
			due = append(due, job)
		}
	}
	if next != never {
		r.session.WakeAt(time.Unix(next, 0))
	}
	slices.SortFunc(due, r.session.CompareJobs)
	for _, job := range due {
		r.reserve(job)
	}
}

// reservationDue returns when the job's time has come, in seconds since 1970, or never. A gang of which no cycle has said yet
// that it waits begins to wait now.
func (r *run) reservationDue(job *model.Job) int64 {
	if !job.HasGroup || !waitsForRoom(r.session.Refusal(job)) || r.session.JobReady(job, framework.Ready) == nil {
		return never
	}
	since := r.now
	if !job.WaitingSince.IsZero() {
		since = job.WaitingSince.Unix()
	}
	return since + min(r.reserveAfter, never-since)
}

// waitsForRoom reports whether a job was refused that other nodes, or emptier ones, could run. One that waits for pods to leave
// has its capacity already.
func waitsForRoom(refusal *model.Refusal) bool {
	return refusal != nil && (refusal.Code == model.InsufficientResources || refusal.Code == model.NodesFiltered)
}

func (r *run) holds(job *model.Job) *reservedJob {
	for _, holder := range r.holders {
		if holder.job == job {
			return holder
		}
	}
	return nil
}

// reserve gives the job a reservation, if there is one left, or if a job of lower priority has one that may wait indefinitely
// for the jobs above it.
func (r *run) reserve(job *model.Job) {
	if r.work <= 0 {
		r.continueNextCycle()
		return
	}
	var last *reservedJob
	if r.slotsTaken() {
		if r.starting > 0 {
			r.session.WakeAt(time.Unix(r.now+1, 0)) // nothing else may tell when the binds have come to their end
		}
		if len(r.holders) == 0 {
			return
		}
		last = r.lowest()
		if last.job.Priority >= job.Priority {
			return
		}
	}
	reservation := r.plan(job, 0)
	if reservation == nil {
		return
	}
	if last != nil {
		r.session.Reserve(last.job, nil)
		r.holders = slices.DeleteFunc(r.holders, func(h *reservedJob) bool { return h == last })
	}
	r.session.Reserve(job, reservation)
	expected, _ := r.estimateStart(job, reservation)
	r.hold(job, reservation, expected)
}

// continueNextCycle makes sure that there is a cycle for the jobs before whose turn the budget was spent.
func (r *run) continueNextCycle() { r.session.WakeAt(time.Unix(r.now+1, 0)) }

// slotsTaken reports whether there are as many reservations as there may be.
func (r *run) slotsTaken() bool { return len(r.holders)+r.starting >= r.reservations }

// lowest returns the holder of the lowest priority, the last one in job order among equals.
func (r *run) lowest() *reservedJob {
	last := r.holders[0]
	for _, holder := range r.holders[1:] {
		if holder.job.Priority < last.job.Priority ||
			holder.job.Priority == last.job.Priority && r.session.CompareJobs(holder.job, last.job) > 0 {
			last = holder
		}
	}
	return last
}
