package backfill

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is how much is reserved at most, for how long, for whom, and which gang reserves again after which.

// LimitReservations gives up reservations whose time has passed, or that are of more than the job's waiting members request, and
// releases those that are too many or too large: the first jobs in job order keep theirs.
func (a *action) LimitReservations(session *engine.Session) {
	r := a.newRun(session)
	var jobs []*model.Job
	for _, job := range session.Snapshot.Jobs {
		if job.Reservation != nil {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, session.CompareJobs)
	for _, job := range jobs {
		reservation := r.bounded(job.Reservation)
		switch {
		case reservation.Until.Unix() <= r.now || !withinRequest(job, reservation):
			session.Reserve(job, model.GivenUp(time.Unix(r.now, 0).UTC()))
		case !r.mayReserve(job, reservation.Total(), nil):
			session.Reserve(job, nil)
		default:
			if !reservation.Equal(job.Reservation) {
				session.Reserve(job, reservation)
			}
			session.Until(reservation.Until)
			r.holders = append(r.holders, &reservedJob{job: job, reservation: reservation})
		}
	}
	r.keepHeadroom()
}

// bounded returns the reservation with times that this configuration and this clock could have given it. One that does not say
// when it is given up was made by a release that gave up none.
func (r *run) bounded(reservation *model.Reservation) *model.Reservation {
	b := *reservation
	if b.Since.Unix() > r.now {
		b.Since = time.Unix(r.now, 0).UTC()
	}
	if b.Until.IsZero() {
		b.Until = r.until(b.Since.Unix())
	}
	if latest := r.until(r.now); b.Until.After(latest) {
		b.Until = latest
	}
	return &b
}

// until returns when a reservation is given up that is made at that moment, in seconds since 1970.
func (r *run) until(made int64) time.Time {
	return time.Unix(made+min(r.reserveFor, math.MaxInt32), 0).UTC()
}

// withinRequest reports whether no more is reserved than all waiting members request together: they may be others than before,
// and the status that it was read from may have been written by another client.
func withinRequest(job *model.Job, reservation *model.Reservation) bool {
	var requested model.Resources
	for _, task := range job.Pending() {
		requested.Add(task.Request)
	}
	for i, amount := range reservation.Total() {
		if amount > requested.At(i) {
			return false
		}
	}
	return true
}

// mayReserve reports whether so much may be reserved for the job beside what is reserved for the others. One of them may be left
// out, in whose place it would be.
func (r *run) mayReserve(job *model.Job, amount model.Resources, instead *reservedJob) bool {
	sum, others := amount.Clone(), 0
	for _, holder := range slices.Concat(r.holders, r.starting) {
		if holder == instead {
			continue
		}
		if tenant(holder.job) == tenant(job) {
			return false
		}
		sum.AddCapped(holder.reservation.Total())
		others++
	}
	return others < r.reservations && r.overShare(sum) < 0
}

// tenant returns the name of the job's queue, and while there are no queues that of its namespace: who waits with several gangs
// has one reservation.
func tenant(job *model.Job) string { return cmp.Or(job.Queue, job.Key.Namespace) }

// The limits of what a PodGroup's status can show of a reservation: how many nodes, how many resources on each of them, and
// how long it is, in bytes.
const (
	maxNodes     = 4096
	maxResources = 64
	maxBytes     = 512 << 10
)

// isTooLong reports whether a reservation is more than the status can show. What is not shown would be lost with a restart.
func isTooLong(reservation *model.Reservation) bool {
	const perNode, perResource = 64, 48 // the names of fields, and of a resource with its amount
	bytes := 0
	for i := range reservation.Nodes {
		if names := slices.DeleteFunc(slices.Clone(reservation.Nodes[i].Request), isZero); len(names) > maxResources {
			return true
		}
		bytes += perNode + len(reservation.Nodes[i].Node) + perResource*len(reservation.Nodes[i].Request)
	}
	return len(reservation.Nodes) > maxNodes || bytes > maxBytes
}

func isZero(amount int64) bool { return amount == 0 }

// overShare returns the first resource by name of which the amount is more than may be reserved in all, -1 when it is of none.
func (r *run) overShare(amount model.Resources) int {
	if r.allocatable == nil {
		for _, node := range r.session.Snapshot.Nodes {
			if node.Invalid == nil {
				r.allocatable.AddCapped(node.Allocatable())
			}
		}
	}
	first, dimensions := -1, r.session.Snapshot.Dimensions
	for i := range amount {
		total := r.allocatable.At(i)
		if amount[i] > total/100*r.reserveShare+total%100*r.reserveShare/100 && (first < 0 || dimensions.Name(i) < dimensions.Name(first)) {
			first = i
		}
	}
	return first
}

// refuseShare says on the job's refusal that it asks for too much of a resource to have a reservation. Of a job that asks for
// more than there is the refusal says enough.
func (r *run) refuseShare(job *model.Job, amount model.Resources, resource int) {
	if amount[resource] > r.allocatable.At(resource) {
		return
	}
	var needs, all model.Resources
	needs.Set(resource, amount[resource])
	all.Set(resource, r.allocatable.At(resource))
	words := r.session.Snapshot.Dimensions.Format
	r.note(job, fmt.Sprintf("no capacity is reserved for it, since it needs %s of %s, and reserveShare is %d percent",
		words(needs), words(all), r.reserveShare))
}

// explainGivenUp says on the refusals of the jobs when they gave up a reservation.
func (r *run) explainGivenUp(waiting []*model.Job) {
	for _, job := range waiting {
		if gaveUp := r.gaveUp(job); !gaveUp.IsZero() && r.session.Refusal(job) != nil {
			r.note(job, "its reservation was given up at "+gaveUp.UTC().Format(time.RFC3339)+", before it could start")
		}
	}
}

// note adds to the job's refusal.
func (r *run) note(job *model.Job, note string) {
	r.session.Refuse(job, r.session.Refusal(job).WithNote(note))
}

// dueAt returns when the job may reserve, in seconds since 1970: after it has waited for so long, or for so long again since it
// gave up a reservation. A gang of which no cycle has said yet that it waits begins to wait now.
func (r *run) dueAt(job *model.Job) int64 {
	since := r.now
	if !job.WaitingSince.IsZero() {
		since = job.WaitingSince.Unix()
	}
	if gaveUp := r.gaveUp(job); !gaveUp.IsZero() {
		since = max(since, gaveUp.Unix())
	}
	return since + min(r.reserveAfter, never-since)
}

// inTurn returns the jobs in the order in which they are tried, but last those that come behind another one.
func (r *run) inTurn(due []*model.Job) []*model.Job {
	var first, last []*model.Job
	known := map[string]bool{} // by tenant, for those that gave up nothing themselves
	for job := range r.session.InOrder(due) {
		behind, ok := known[tenant(job)]
		if !ok || !r.gaveUp(job).IsZero() {
			behind = slices.ContainsFunc(due, func(other *model.Job) bool { return other != job && r.isBehind(job, other) })
		}
		if r.gaveUp(job).IsZero() {
			known[tenant(job)] = behind
		}
		if behind {
			last = append(last, job)
		} else {
			first = append(first, job)
		}
	}
	return append(first, last...)
}

// isBehind reports whether the job may reserve only after the other, whatever their order is: the other was due when the job gave
// up a reservation, or when any job of the same tenant did, if the other is of another tenant.
func (r *run) isBehind(job, other *model.Job) bool {
	gaveUp := r.gaveUp(job)
	if tenant(other) != tenant(job) {
		gaveUp = r.lastGivenUp()[tenant(job)]
	}
	return !gaveUp.IsZero() && r.dueAt(other) <= gaveUp.Unix()
}

// lastGivenUp returns when a reservation was last given up, by tenant.
func (r *run) lastGivenUp() map[string]time.Time {
	if r.givenUp == nil {
		r.givenUp = map[string]time.Time{}
		for _, job := range r.session.Snapshot.Jobs {
			if gaveUp := r.gaveUp(job); gaveUp.After(r.givenUp[tenant(job)]) {
				r.givenUp[tenant(job)] = gaveUp
			}
		}
	}
	return r.givenUp
}

// gaveUp returns when the job gave up its last reservation, zero when it did not.
func (r *run) gaveUp(job *model.Job) time.Time {
	_, gaveUp := r.session.Reservation(job)
	return gaveUp
}

// reservation returns what is reserved for the job, nil when nothing is.
func (r *run) reservation(job *model.Job) *model.Reservation {
	held, _ := r.session.Reservation(job)
	return held
}
