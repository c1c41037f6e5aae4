package backfill

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// unknown is the end of a task that nobody knows; it comes after all that are known.
const unknown = math.MaxInt64

// departure is a task and when it is expected to leave its node.
type departure struct {
	task *model.Task
	// end is when, in seconds since 1970, or unknown; since is when the task came.
	end, since int64
	// stays tells that nobody knows the end, and that the task was there long before and has not left since.
	stays bool
}

// compareDepartures orders by end; of those whose end is unknown the one that runs longest comes first, but for those that
// seem to stay.
func compareDepartures(a, b departure) int {
	return cmp.Or(cmp.Compare(a.end, b.end), compareStays(a, b), cmp.Compare(a.since, b.since), cmp.Compare(a.task.UID, b.task.UID))
}

func compareStays(a, b departure) int {
	switch {
	case a.stays == b.stays:
		return 0
	case b.stays:
		return -1
	default:
		return 1
	}
}

// departures returns the tasks that leave sooner or later, as far as the job is concerned, in the order in which they do. Those
// that run since outlived or before seem to stay.
func (r *run) departures(job *model.Job, tasks []*model.Task, outlived int64) []departure {
	leaving := make([]departure, 0, len(tasks))
	for _, task := range tasks {
		if task.Status.OnNode() && leaves(task, job) {
			d := departure{task: task, end: r.end(task), since: r.since(task)}
			d.stays = d.end == unknown && d.since <= outlived
			leaving = append(leaving, d)
		}
	}
	slices.SortFunc(leaving, compareDepartures)
	return leaving
}

// end returns when a task is expected to leave its node: at the earliest of the moments that are known and have not passed.
// One that has outlived what was known of it may stay for ever.
func (r *run) end(task *model.Task) int64 {
	if task.Status == model.Releasing {
		switch deleted := task.Pod.DeletionTimestamp; {
		case task.Stuck:
			return unknown
		case deleted == nil:
			return r.now
		default:
			return deleted.Unix() // with a little patience for one that is late, until it is stuck
		}
	}
	end := int64(unknown)
	sooner := func(began int64, seconds *int64) {
		if seconds == nil || *seconds < 0 || *seconds > unknown-began {
			return
		}
		if at := began + *seconds; at > r.now {
			end = min(end, at)
		}
	}
	sooner(r.since(task), task.Pod.Spec.ActiveDeadlineSeconds)
	if job := r.session.Snapshot.Job(task.Job); job != nil && job.Group != nil && job.Group.Spec.ExpectedRunSeconds != nil {
		sooner(r.begin(job), job.Group.Spec.ExpectedRunSeconds)
	}
	return end
}

// begin returns when the first of the job's members that are there began to run.
func (r *run) begin(job *model.Job) int64 {
	if began, known := r.began[job.Key]; known {
		return began
	}
	began := r.now
	for _, task := range job.Tasks {
		if task.Status.HoldsRoom() {
			began = min(began, r.since(task))
		}
	}
	r.began[job.Key] = began
	return began
}

// since returns when a task began to run, or came to its node, as far as that is known.
func (r *run) since(task *model.Task) int64 {
	status := &task.Pod.Status
	if status.StartTime != nil {
		return status.StartTime.Unix()
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Unix()
		}
	}
	if task.Status == model.Bound || task.Status == model.Running {
		return task.Created.Unix()
	}
	return r.now
}

// outlook is what is to be expected of a reservation.
type outlook struct {
	// start is when the last of those who use the room is expected to leave; zero when that is unknown of any. When nobody
	// uses it any more it is what it was, or now.
	start time.Time
	// first is when the first of them is, in seconds since 1970, and may turn out not to; zero when nobody is.
	first int64
	// intruded tells that somebody above who uses the room came after it was reserved, and stays for longer than was expected.
	intruded bool
}

// outlook looks at those who use the room of a reservation. ok is false when there is no such room, however many of them leave.
func (r *run) outlook(job *model.Job, reservation *model.Reservation) (o outlook, ok bool) {
	r.session.See(job)
	last := int64(0)
	for i := range reservation.Rooms {
		room := &reservation.Rooms[i]
		node := r.session.Snapshot.Node(room.Node)
		if node == nil || node.Refused != nil {
			return o, false
		}
		missing := missingOn(node, room.Request)
		for _, leaving := range r.departures(job, node.Tasks, 0) {
			if !missing.anyOf(leaving.task.Request) {
				continue
			}
			missing.Sub(leaving.task.Request)
			last = max(last, leaving.end)
			if o.first == 0 || leaving.end < o.first {
				o.first = leaving.end
			}
			o.intruded = o.intruded || r.intrudes(leaving, job, reservation)
		}
		if missing.any() {
			return o, false
		}
	}
	o.start = r.expected(job, reservation.ExpectedStart, last)
	if o.first == unknown || o.first <= r.now {
		o.first = 0
	}
	return o, true
}

// expected returns when the job is expected to start, if the last who takes room from it leaves then. Where more than room
// decides, somebody else may have to leave, too: what was expected when the room was chosen is then the least.
func (r *run) expected(job *model.Job, before time.Time, last int64) time.Time {
	switch plain := r.plain(job); {
	case last == unknown, !plain && before.IsZero():
		return time.Time{}
	case !plain && before.Unix() > last, last == 0 && !before.IsZero():
		return before
	}
	return time.Unix(cmp.Or(last, r.now), 0).UTC()
}

// intrudes tells whether a task of a job above came to its node after the room there was reserved, and is not one that will be
// gone in time.
func (r *run) intrudes(leaving departure, job *model.Job, reservation *model.Reservation) bool {
	switch leaving.task.Status {
	case model.Bound, model.Running:
	default:
		return false // when it came is not known yet
	}
	expected := int64(unknown)
	if !reservation.ExpectedStart.IsZero() {
		expected = reservation.ExpectedStart.Unix()
	}
	above := r.session.Snapshot.Job(leaving.task.Job).Priority > job.Priority // others have borrowed, and are late
	return above && leaving.since > reservation.Since.Unix() && (leaving.end == unknown || leaving.end > expected)
}

// shortage is what is missing of a request on a node, where it is more than zero.
type shortage struct{ model.Resources }

// missingOn returns what the node lacks to hold the request now.
func missingOn(node *model.Node, request model.Resources) shortage {
	missing := make(model.Resources, len(request))
	for i, amount := range request {
		if amount > 0 {
			missing[i] = amount - (node.Idle.At(i) - node.Promised.At(i) - node.Kept.At(i))
		}
	}
	return shortage{missing}
}

func (s shortage) any() bool {
	return slices.ContainsFunc(s.Resources, func(amount int64) bool { return amount > 0 })
}

// anyOf tells whether a request is of something that is missing.
func (s shortage) anyOf(request model.Resources) bool {
	for i, amount := range s.Resources {
		if amount > 0 && request.At(i) > 0 {
			return true
		}
	}
	return false
}
