package backfill

import (
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reserveForOverdueGangs makes reservations for gangs whose time has come, in the order in which they are tried.
func (r *run) reserveForOverdueGangs(waiting []*model.Job) {
	if r.reserveAfter == never || r.reservations == 0 {
		return
	}
	var due []*model.Job
	for _, job := range waiting {
		switch at := r.reservationDue(job); {
		case at == never || r.holds(job) != nil:
		case at > r.now:
			r.changesAt(at)
		default:
			due = append(due, job)
		}
	}
	for _, job := range r.inTurn(due) {
		r.session.InTurn(job, func() { r.reserve(job) })
	}
}

// reservationDue returns when the job's time has come, in seconds since 1970, or never.
func (r *run) reservationDue(job *model.Job) int64 {
	if !job.HasGroup || !r.session.Refusal(job).LacksPlace() || r.session.JobReady(job, framework.Ready) == nil {
		return never
	}
	return r.dueAt(job)
}

func (r *run) holds(job *model.Job) *reservedJob {
	for _, holder := range r.holders {
		if holder.job == job {
			return holder
		}
	}
	return nil
}

// reserve gives the job a reservation, if there is one left, or if a job of lower priority in its queue has one that may wait
// indefinitely for the jobs above it.
func (r *run) reserve(job *model.Job) {
	needs := max(0, int(job.MinMember)-job.Count(framework.Ready.Counts))
	least := model.LeastRequests(job, needs, r.session.Snapshot.Dimensions.Len())
	if resource := r.overShare(least); resource >= 0 {
		r.refuseShare(job, least, resource)
		return
	}
	if r.work <= 0 {
		r.continueNextCycle()
		return
	}
	instead, free := r.slot(job)
	if !free || !r.mayReserve(job, least, instead) {
		return
	}
	reservation := r.plan(job, 0)
	if reservation == nil {
		return
	}
	if isTooLong(reservation) {
		r.note(job, fmt.Sprintf("no capacity is reserved for it on %d nodes, since its status cannot show so many nodes or resources", len(reservation.Nodes)))
		return
	}
	if total := reservation.Total(); !r.mayReserve(job, total, instead) {
		if resource := r.overShare(total); resource >= 0 {
			r.refuseShare(job, total, resource)
		}
		return
	}
	if instead != nil {
		r.session.Reserve(instead.job, nil)
		r.holders = slices.DeleteFunc(r.holders, func(h *reservedJob) bool { return h == instead })
	}
	reservation.Until = r.until(r.now)
	r.session.Reserve(job, reservation)
	r.hold(job, reservation)
}

// continueNextCycle makes sure that there is a cycle for the jobs before whose turn the budget was spent.
func (r *run) continueNextCycle() {
	r.session.SearchCut()
	r.changesAt(r.now + 1)
}

// slot reports whether the job may have a reservation, and in whose place; instead is nil when there is one left. Of a tenant
// only one job has one.
func (r *run) slot(job *model.Job) (instead *reservedJob, free bool) {
	same := func(holder *reservedJob) bool { return tenant(holder.job) == tenant(job) }
	taken := len(r.holders)+len(r.starting) >= r.reservations
	if len(r.starting) > 0 && (taken || slices.ContainsFunc(r.starting, same)) {
		r.changesAt(r.now + 1) // nothing else may tell when the binds have come to their end
	}
	i := slices.IndexFunc(r.holders, same)
	switch {
	case slices.ContainsFunc(r.starting, same):
		return nil, false
	case i >= 0:
		instead = r.holders[i]
	case taken:
		instead = r.lowest(job)
	default:
		return nil, true
	}
	return instead, instead != nil && instead.job.Priority < job.Priority &&
		!r.session.Snapshot.CrossesQueues(instead.job, job) && !r.isBehind(job, instead.job)
}

// lowest returns the holder of the lowest priority in the job's queue, the last one in job order among equals; nil when there is
// none.
func (r *run) lowest(job *model.Job) (last *reservedJob) {
	for _, holder := range r.holders {
		if r.session.Snapshot.CrossesQueues(holder.job, job) {
			continue
		}
		if last == nil || holder.job.Priority < last.job.Priority ||
			holder.job.Priority == last.job.Priority && r.session.CompareJobs(holder.job, last.job) > 0 {
			last = holder
		}
	}
	return last
}
