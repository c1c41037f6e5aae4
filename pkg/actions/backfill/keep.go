package backfill

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// lookAfter keeps the reservations that help, plans those anew that do not, and gives back those that nobody waits for.
func (r *run) lookAfter(jobs []*model.Job) {
	for _, job := range jobs {
		switch {
		case r.session.GateJob(job, framework.WithPlaced) == nil:
			// It has room. The reservation ends by itself when its minimum is bound, and not before: a bind may fail.
		case r.reserveAfter == never || len(r.holders) >= r.reservations || r.idles(job):
			r.session.Reserve(job, nil)
		default:
			r.keep(job)
		}
	}
}

// idles tells whether the job does not wait for room, but for something else.
func (r *run) idles(job *model.Job) bool {
	return job.Group == nil || r.session.Snapshot.Held[job.Key] == nil && r.session.ValidateJob(job) != nil
}

// keep looks at one reservation. While it helps it stays where it is, so that it is not moved about by every pod that ends
// earlier elsewhere; what is expected of it follows those who use the room.
func (r *run) keep(job *model.Job) {
	before := job.Reservation
	outlook, stands := r.outlook(job, before)
	stands = stands && moderate(job, before) && r.stands(job, before)
	planned := *before
	planned.ExpectedStart = outlook.start
	slipped, overdue := r.outlasted(job, before, outlook)
	if !stands || outlook.intruded || slipped || overdue {
		anew := r.plan(job, r.outlived(before, overdue))
		switch {
		case anew != nil && (!stands || outlook.intruded || overdue || later(outlook.start, anew.ExpectedStart)):
			planned = *anew
			outlook, _ = r.outlook(job, anew)
		case !stands:
			r.session.Reserve(job, nil)
			return
		}
	}
	if !planned.Equal(before) {
		planned.Object = nil
		r.session.Reserve(job, &planned)
	}
	r.hold(job, &planned, outlook)
}

// longEnough is for how many seconds at least a place is kept where nobody knows when the last one leaves.
const longEnough = 60 * 60

// outlasted tells whether the place has been waited for long enough to look for another one, because the start is expected
// later than before, or because nobody knows when it is.
//
// Invariant: each place is kept for at least as long as the job had waited when it was chosen, unless it does not stand any
// more or was taken by somebody above the job. So ends that are always said to be near and never are do not drive the job
// from place to place for ever, and neither does it wait for ever for one who stays: sooner or later it keeps one place for
// longer than any of those run that do end.
func (r *run) outlasted(job *model.Job, before *model.Reservation, expected outlook) (slipped, overdue bool) {
	enough := r.now >= r.keptUntil(job, before, 0)
	slipped = enough && later(expected.start, before.ExpectedStart)
	return slipped, expected.start.IsZero() && r.now >= r.keptUntil(job, before, longEnough)
}

// keptUntil returns up to when the place is kept, for so many seconds at least, in seconds since 1970.
func (r *run) keptUntil(job *model.Job, reservation *model.Reservation, least int64) int64 {
	since, waited := reservation.Since.Unix(), int64(0)
	if waits := job.Group.Status.WaitingSince; waits != nil {
		waited = since - waits.Unix()
	}
	return since + max(waited, least)
}

// outlived returns since when somebody must have run who outlived a reservation that is overdue, in seconds since 1970; zero
// when it is not.
func (*run) outlived(reservation *model.Reservation, overdue bool) int64 {
	if !overdue {
		return 0
	}
	return reservation.Since.Unix()
}

// later tells whether a start is expected later than another one; zero, which is unknown, is later than any.
func later(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// hold takes note of a reservation and wakes the loop when what is expected of it may turn out wrong.
func (r *run) hold(job *model.Job, reservation *model.Reservation, expected outlook) {
	r.holders = append(r.holders, &holder{job: job, reservation: reservation})
	if expected.first != 0 {
		r.session.WakeAt(time.Unix(expected.first, 0))
	}
	if overdue := r.keptUntil(job, reservation, longEnough); reservation.ExpectedStart.IsZero() && overdue > r.now {
		r.session.WakeAt(time.Unix(overdue, 0))
	}
}

// moderate tells whether no more is reserved than all members request together that wait: they may be others than before, and
// the status that it was read from may be somebody else's word.
func moderate(job *model.Job, reservation *model.Reservation) bool {
	var reserved, requested model.Resources
	for _, room := range reservation.Rooms {
		reserved.Add(room.Request)
	}
	for _, task := range job.Waiting() {
		requested.Add(task.Request)
	}
	for i, amount := range reserved {
		if amount > requested.At(i) {
			return false
		}
	}
	return true
}

// stands tells whether the job would start in what is reserved for it, were all others of our jobs gone from there.
func (r *run) stands(job *model.Job, reservation *model.Reservation) bool {
	if r.found.stands(r, job, reservation.Rooms) {
		return true
	}
	stands := false
	r.session.Try(func(statement *framework.Statement) *model.Refusal {
		rooms := map[string]model.Resources{}
		for _, room := range reservation.Rooms {
			node := r.session.Snapshot.Node(room.Node)
			if node == nil {
				continue
			}
			rooms[node.Name] = room.Request
			for _, task := range append([]*model.Task(nil), node.Tasks...) {
				if leaves(task, job) {
					statement.Depart(task)
				}
			}
		}
		stands = r.trial(job).FitsInto(rooms)
		return supposition
	})
	if stands {
		r.found.addStanding(r, job, reservation.Rooms)
	}
	return stands
}

// supposition ends statements that only suppose something.
var supposition = &model.Refusal{Detail: "it was only supposed"}

// leaves tells whether a task is one of those whose end a job may wait for: of our jobs, and not of its own unless it is being
// deleted. Pods of others stay.
func leaves(task *model.Task, job *model.Job) bool {
	return task.Job != model.JobKey{} && (task.Job != job.Key || task.Status == model.Releasing)
}
