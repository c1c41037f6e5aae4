package backfill

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reviewReservations keeps the reservations that help, plans those again that do not, and releases those that no job waits
// for.
func (r *run) reviewReservations(jobs []*model.Job) {
	slices.SortFunc(jobs, r.session.CompareJobs)
	for _, job := range jobs {
		switch {
		case r.session.JobReady(job, framework.Pipelined) == nil:
			// It has capacity, or will as soon as other pods have left. The reservation ends by itself when the minimum is bound, and
			// not before: a bind may fail. So no other job gets a reservation in its place either: that job would still have it after a
			// failed bind.
			r.starting = append(r.starting, &reservedJob{job: job, reservation: r.reservation(job)})
		case r.reserveAfter == never || r.notWaitingForResources(job):
			r.session.Reserve(job, nil)
		default:
			r.session.InTurn(job, func() { r.revalidate(job) })
		}
	}
}

// notWaitingForResources reports whether the job does not wait for capacity, but for something else, such as members, or the end
// of pods that were evicted for it.
func (r *run) notWaitingForResources(job *model.Job) bool {
	if slices.ContainsFunc(job.Tasks, func(task *model.Task) bool { return task.Nominated != "" }) {
		return true
	}
	return !job.HasGroup || r.session.Snapshot.JobBackoff[job.Key] == nil && r.session.ValidateJob(job) != nil
}

// revalidate looks at one reservation. As long as the job would start there once all pods have left, it stays where it is,
// also when they leave later than was expected and pods elsewhere are expected to leave sooner. A job that always moved to the
// pods with the earliest expected end would wait indefinitely for pods that overrun it. Where it stays, every pod ends some
// time, and no job of its priority or below takes the capacity after that. The expected start follows from the pods that are
// there; it is unknown while pods of others are nominated there.
func (r *run) revalidate(job *model.Job) {
	before := r.reservation(job)
	planned := *before
	expected, stands := r.estimateStart(job, before)
	stands = stands && r.stillFits(job, before)
	planned.ExpectedStart = expected.start
	overdue := r.isOverdue(job, before, expected) && len(r.session.Overstayed(job)) == 0 // which may be evicted for it
	gave := !before.GaveWay.IsZero() && before.GivesWay()
	again := gave && r.areServed(job, before)
	if !stands || expected.displaced && !gave || overdue || again {
		outlived := int64(0)
		if overdue {
			outlived = before.Since.Unix()
		}
		replanned := r.plan(job, outlived)
		switch {
		case replanned != nil:
			planned = *replanned
			planned.Until, planned.GaveWay = before.Until, before.GaveWay
			if gave && !again {
				planned.GaveWay = planned.Since // it still gives way
			}
		case !stands && !r.isNominated(job, before):
			r.session.Reserve(job, nil)
			return
		}
	}
	if !planned.Equal(before) {
		r.session.Reserve(job, &planned)
	}
	r.hold(job, &planned)
}

// isNominated reports whether capacity of a reservation is nominated to pods of other jobs, and its nodes still take members of
// the job. Such a pod starts there and ends some time, as those that run there do.
func (r *run) isNominated(job *model.Job, reservation *model.Reservation) bool {
	nominated := false
	for _, room := range reservation.Nodes {
		takes := func(task *model.Task) bool {
			return slices.ContainsFunc(r.session.EligibleNodes(task), func(node *model.Node) bool { return node.Name == room.Node })
		}
		if !slices.ContainsFunc(job.Pending(), takes) {
			return false
		}
		nominated = nominated || slices.ContainsFunc(r.session.Snapshot.HeldAt(room.Node), func(hold model.HeldCapacity) bool {
			return !hold.Reserved() && hold.Job != job.Key
		})
	}
	return nominated
}

// areServed reports whether a reservation that gave way is planned again: reserveAfter has passed since, and no job that came
// before that waits for what gives way to it. Such a job may wait for something else for any time, so that after twice as long
// none counts.
func (r *run) areServed(job *model.Job, reservation *model.Reservation) bool {
	period := max(r.reserveAfter, 1)
	due := reservation.GaveWay.Unix() + period
	wait := due
	if due <= r.now && slices.ContainsFunc(r.waiting, func(other *model.Job) bool {
		return other.Created.Unix() <= due && r.session.Refusal(other).LacksPlace() && r.session.GivesWay(job, other)
	}) {
		wait += period
	}
	r.changesAt(wait)
	return wait <= r.now
}

// minWait is for how many seconds at least a place is kept where it is unknown when the last pod leaves.
const minWait = 60 * 60

// isOverdue reports whether it is unknown when the place is free, and the job has waited long enough to look for another one,
// without the pods that were there all the time: they may never end.
//
// Invariant: each such place is kept for at least as long as the job had waited when it was chosen, and so, sooner or later,
// for longer than any of those run that do end.
func (r *run) isOverdue(job *model.Job, reservation *model.Reservation, expected startEstimate) bool {
	return expected.start.IsZero() && r.now >= keepUntil(job, reservation)
}

// keepUntil returns up to when a place is kept if it is unknown when it is free, in seconds since 1970.
func keepUntil(job *model.Job, reservation *model.Reservation) int64 {
	since, waited := reservation.Since.Unix(), int64(0)
	if !job.WaitingSince.IsZero() {
		waited = since - job.WaitingSince.Unix()
	}
	return since + max(waited, minWait)
}

// hold takes note of a reservation, which may be another one when it is given up, or when its place is kept no longer.
func (r *run) hold(job *model.Job, reservation *model.Reservation) {
	r.holders = append(r.holders, &reservedJob{job: job, reservation: reservation})
	r.session.Until(reservation.Until)
	if reservation.ExpectedStart.IsZero() {
		r.changesAt(keepUntil(job, reservation))
	}
}

// stillFits reports whether the job would start in what is reserved for it, were all others of our jobs gone from there.
func (r *run) stillFits(job *model.Job, reservation *model.Reservation) bool {
	question := engine.Question{Action: Name + " reserved", Emptied: true}
	return r.session.Ask(job, model.FutureIdle).Remember(question, func(ask engine.Ask) (*model.Refusal, engine.Reach) {
		stands := false
		r.session.Try(func(statement *engine.Statement) *model.Refusal {
			rooms := map[string]model.Resources{}
			for _, room := range reservation.Nodes {
				node := r.session.Snapshot.Node(room.Node)
				if node == nil {
					continue
				}
				rooms[node.Name] = room.Request
				for _, task := range slices.Clone(node.Tasks) {
					if mayComplete(task, job) {
						statement.SimulateCompletion(task)
					}
				}
			}
			stands = r.trial(ask).FitsWithin(rooms)
			return errWhatIf
		})
		if !stands {
			return errWhatIf, engine.ForNow
		}
		return nil, engine.ForJob
	}) == nil
}

// errWhatIf ends statements that only suppose something.
var errWhatIf = &model.Refusal{Detail: "it was only supposed"}

// mayComplete reports whether a task is one of those whose end a job may wait for: of our jobs, and not of its own unless it
// is being deleted. Pods of others stay.
func mayComplete(task *model.Task, job *model.Job) bool {
	return task.Job != model.JobKey{} && (task.Job != job.Key || task.Status == model.Releasing)
}
