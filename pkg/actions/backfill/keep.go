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
		case r.session.GateJob(job, framework.WithPlaced) == nil:
			// It has room. The reservation ends by itself when its minimum is bound, and not before: a bind may fail.
		case r.reserveAfter == never || len(r.holders) >= r.reservations || r.idles(job):
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
	stands = stands && r.stands(job, before)
	planned.ExpectedStart = expected.start
	if !stands || expected.intruded {
		anew := r.plan(job)
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

// hold takes note of a reservation and wakes the loop when what is expected of it may turn out wrong.
func (r *run) hold(job *model.Job, reservation *model.Reservation, expected outlook) {
	r.holders = append(r.holders, &holder{job: job, reservation: reservation})
	if expected.first != 0 {
		r.session.WakeAt(time.Unix(expected.first, 0))
	}
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
