package backfill

import (
	"cmp"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// unknown is the end of a task when it is not known; it comes after all that are known.
const unknown = model.UnknownEnd

const overrunGrace = model.OverrunGrace

// expectedCompletion is a task and when it is expected to leave its node.
type expectedCompletion struct {
	task *model.Task
	// end is when, in seconds since 1970, or unknown; since is when the task came.
	end, since int64
	// neverEnds is 1 when the end is unknown and the task was there long before and has not left since, else 0.
	neverEnds int
}

// compareCompletions orders by end. Of those whose end is unknown the one that runs longest comes first, and those that seem to
// stay come last.
func compareCompletions(a, b expectedCompletion) int {
	return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.neverEnds, b.neverEnds), cmp.Compare(a.since, b.since), cmp.Compare(a.task.UID, b.task.UID))
}

// expectedCompletions returns the tasks that leave sooner or later, as far as the job is concerned, in the order in which
// they do. Guests are those that came after that moment, in seconds since 1970; those that run since outlived or before seem
// to stay.
func (r *run) expectedCompletions(job *model.Job, tasks []*model.Task, guests, outlived int64) []expectedCompletion {
	leaving := make([]expectedCompletion, 0, len(tasks))
	for _, task := range tasks {
		if task.Status.HasNode() && mayComplete(task, job) {
			since := task.RunsSince(r.now)
			d := expectedCompletion{task: task, end: r.ends.Of(task, since > guests), since: since}
			if d.end == unknown && since <= outlived {
				d.neverEnds = 1
			}
			leaving = append(leaving, d)
		}
	}
	slices.SortFunc(leaving, compareCompletions)
	return leaving
}

// startEstimate is what is to be expected of a reservation.
type startEstimate struct {
	// start is when the last of the pods that use the capacity is expected to leave; zero when that is unknown of any. When no
	// pod uses it any more it is what it was, or now.
	start time.Time
	// displaced reports that a job of higher priority has taken some of the capacity since, and stays for longer than was
	// expected.
	displaced bool
}

// changesAt says that time alone may change an answer at that moment, in seconds since 1970, unless it has passed.
func (r *run) changesAt(at int64) {
	if at > r.now {
		r.session.Until(time.Unix(at, 0))
	}
}

// estimateStart looks at the tasks that use the capacity of a reservation. ok is false when there is no such capacity, however
// many of them leave.
func (r *run) estimateStart(job *model.Job, reservation *model.Reservation) (o startEstimate, ok bool) {
	ask := r.session.Ask(job, model.Idle)
	last := int64(0)
	for i := range reservation.Nodes {
		room := &reservation.Nodes[i]
		node := r.session.Snapshot.Node(room.Node)
		if node == nil || node.Invalid != nil {
			return o, false
		}
		missing := ask.Free(node).Missing(room.Request)
		if missing.Overlaps(node.Leaving()) { // its pods are gone: it is free at any moment
			missing.Sub(node.Leaving())
			last = max(last, r.now)
			r.session.Until(r.session.Snapshot.Now)
		}
		for _, leaving := range r.expectedCompletions(job, node.Tasks, reservation.Since.Unix(), 0) {
			if !missing.Overlaps(leaving.task.Request) {
				continue
			}
			missing.Sub(leaving.task.Request)
			last = max(last, leaving.end)
			if leaving.end != unknown {
				r.changesAt(leaving.end + overrunGrace) // from then on its end is unknown
			}
			if leaving.since == r.now || leaving.end == r.now { // it has not begun, or its eviction is in flight: its end is counted from now
				r.session.Until(r.session.Snapshot.Now)
			}
			if r.displacesReservation(leaving, job, reservation) {
				o.displaced = o.displaced || leaving.since <= r.now
				r.changesAt(leaving.since) // it came then, by another clock
			}
		}
		if missing.Overlaps(room.Request) {
			return o, false
		}
	}
	o.start = r.expected(job, reservation.ExpectedStart, last)
	return o, true
}

// expected returns when the job is expected to start, if the last pod that takes capacity from it leaves then. Where more than
// capacity decides, other pods may have to leave, too: what was expected when the capacity was chosen is then the earliest.
func (r *run) expected(job *model.Job, before time.Time, last int64) time.Time {
	ask := r.session.Ask(job, model.Idle)
	plain := !slices.ContainsFunc(job.Pending(), func(task *model.Task) bool { return !ask.Rests(task, engine.OnShape) })
	switch {
	case last == unknown, !plain && before.IsZero():
		return time.Time{}
	case !plain && before.Unix() > last, last == 0 && !before.IsZero():
		return before
	}
	return time.Unix(cmp.Or(last, r.now), 0).UTC()
}

// displacesReservation reports whether a task of a job of higher priority, or of another queue by its guarantee, came to its node
// after the capacity there was reserved, and will not be gone in time. A task that came later than now came so by another clock.
// It displaces nothing before then: what is planned again because of it would be planned again in each cycle.
func (r *run) displacesReservation(leaving expectedCompletion, job *model.Job, reservation *model.Reservation) bool {
	above := r.session.Snapshot.Job(leaving.task.Job)
	switch {
	case above == nil:
		return false
	case r.session.Snapshot.CrossesQueues(above, job):
		if above.Overruns(r.now) { // it borrowed the capacity
			return false
		}
	case above.Priority <= job.Priority:
		return false
	}
	if !place.IsSettledOnNode(leaving.task) {
		return false
	}
	expected := int64(unknown)
	if !reservation.ExpectedStart.IsZero() {
		expected = reservation.ExpectedStart.Unix()
	}
	return leaving.since > reservation.Since.Unix() && (leaving.end == unknown || leaving.end > expected)
}
