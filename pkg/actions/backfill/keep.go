package backfill

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// lookAfter keeps the reservations that help, plans those anew that do not, and gives back those that nobody waits for.
func (r *run) lookAfter(jobs []*model.Job) {
	slices.SortFunc(jobs, r.session.CompareJobs)
	for _, job := range jobs {
		switch {
		case r.session.GateJob(job, framework.WithPromised) == nil:
			// It has room, or will as soon as others have left. The reservation ends by itself when its minimum is bound, and
			// not before: a bind may fail. So nobody else gets one in its place either, who would have it when the bind has failed.
			r.starting++
		case r.reserveAfter == never || r.taken() || r.idles(job):
			r.session.Reserve(job, nil)
		default:
			r.keep(job)
		}
	}
}

// idles tells whether the job does not wait for room, but for something else, such as members, or the end of pods that were
// evicted for it.
func (r *run) idles(job *model.Job) bool {
	if slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" }) {
		return true
	}
	return job.Group == nil || r.session.Snapshot.Held[job.Key] == nil && r.session.ValidateJob(job) != nil
}

// keep looks at one reservation. As long as the job would start there once all have left it stays where it is, also when they
// leave later than was expected and others elsewhere are expected to leave sooner: a job that went wherever somebody promises to
// end soon would wait for ever among those who do not keep it. Where it stays, everybody ends some time, and nobody of its
// priority or below comes after. What is expected follows those who are there.
func (r *run) keep(job *model.Job) {
	before := job.Reservation
	planned := *before
	expected, stands := r.outlook(job, before)
	stands = stands && moderate(job, before) && r.stands(job, before)
	planned.ExpectedStart = expected.start
	overdue := r.overdue(job, before, expected)
	if !stands || expected.intruded || overdue {
		outlived := int64(0)
		if overdue {
			outlived = before.Since.Unix()
		}
		anew := r.plan(job, outlived)
		switch {
		case anew != nil:
			planned = *anew
			expected, _ = r.outlook(job, anew)
		case !stands:
			r.session.Reserve(job, nil)
			return
		}
	}
	if !planned.Equal(before) {
		planned.Object = nil
		r.session.Reserve(job, &planned)
	}
	r.hold(job, &planned, expected)
}

// longEnough is for how many seconds at least a place is kept where nobody knows when the last one leaves.
const longEnough = 60 * 60

// overdue tells whether nobody knows when the place is free, and it has been waited for long enough to look for another one, without
// those who were there all the time: they may never end.
//
// Invariant: each such place is kept for at least as long as the job had waited when it was chosen, and so, sooner or later, for
// longer than any of those run that do end.
func (r *run) overdue(job *model.Job, reservation *model.Reservation, expected outlook) bool {
	return expected.start.IsZero() && r.now >= keptUntil(job, reservation)
}

// keptUntil returns up to when a place is kept of which nobody knows when it is free, in seconds since 1970.
func keptUntil(job *model.Job, reservation *model.Reservation) int64 {
	since, waited := reservation.Since.Unix(), int64(0)
	if waits := job.Group.Status.WaitingSince; waits != nil {
		waited = since - waits.Unix()
	}
	return since + max(waited, longEnough)
}

// hold takes note of a reservation and wakes the loop when what is expected of it may turn out wrong.
func (r *run) hold(job *model.Job, reservation *model.Reservation, expected outlook) {
	r.holders = append(r.holders, &holder{job: job, reservation: reservation})
	if expected.first != 0 {
		r.session.WakeAt(time.Unix(expected.first, 0))
	}
	if overdue := keptUntil(job, reservation); reservation.ExpectedStart.IsZero() && overdue > r.now {
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

// stands reports whether the job would start in what is reserved for it, were all others of our jobs gone from there.
func (r *run) stands(job *model.Job, reservation *model.Reservation) bool {
	question := framework.Question{Action: Name + " reserved", Emptied: true}
	return r.session.Verdict(question, job, func() (*model.Refusal, framework.Reach) {
		stands := false
		r.session.Try(func(statement *framework.Statement) *model.Refusal {
			rooms := map[string]model.Resources{}
			for _, room := range reservation.Rooms {
				node := r.session.Snapshot.Node(room.Node)
				if node == nil {
					continue
				}
				rooms[node.Name] = room.Request
				for _, task := range slices.Clone(node.Tasks) {
					if leaves(task, job) {
						statement.Depart(task)
					}
				}
			}
			stands = r.trial(job).FitsInto(rooms)
			return supposition
		})
		if !stands {
			return supposition, framework.ForNow
		}
		return nil, framework.ForJob
	}) == nil
}

// supposition ends statements that only suppose something.
var supposition = &model.Refusal{Detail: "it was only supposed"}

// leaves tells whether a task is one of those whose end a job may wait for: of our jobs, and not of its own unless it is being
// deleted. Pods of others stay.
func leaves(task *model.Task, job *model.Job) bool {
	return task.Job != model.JobKey{} && (task.Job != job.Key || task.Status == model.Releasing)
}
