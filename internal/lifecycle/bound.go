package lifecycle

import (
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// part is what of a gang starts as a whole: what is made first, or a role that is made later. Most gangs are one part.
type part struct {
	model.Part
	// job is the gang that it is of.
	job *model.Job
	id  partID
}

// partID names a part; its role is empty for what is made first.
type partID struct {
	job  model.JobKey
	role string
}

func (id partID) isFirst() bool { return id.role == "" }

// partsOf returns the parts of a gang with the minima that its group states, the first one first. Members of an earlier attempt
// of a JobSet are in none.
func partsOf(job *model.Job) iter.Seq[part] {
	return func(yield func(part) bool) {
		for one := range gang.Parts(&job.Present) {
			if !yield(part{Part: one, job: job, id: partID{job.Key, one.Role}}) {
				return
			}
		}
	}
}

// minima are those of the gang once the part has begun, and what its members on nodes request.
func (p part) minima() model.Minima {
	begun := &p.job.Present
	if p.id.isFirst() {
		begun = &p.Part
	}
	return model.Minima{MinMember: begun.MinMember, Roles: begun.Roles, Requests: model.HeldBy(begun.Tasks)}
}

// undone are the members of the part, with all that were made since it had begun.
func (p part) undone() []*model.Task {
	if p.id.isFirst() {
		return p.job.Present.Tasks
	}
	return p.Tasks
}

// binds is what the API says of the binds of members.
type binds struct {
	tasks []*model.Task
	// named reports that only a pod counts that says for which job it was bound.
	named bool
}

// bindsOf: where a process before has begun the start, and others mark the group, its pods must say for which job they were
// bound: a version that did not know the group may have bound them one by one.
func (s start) bindsOf(p part) binds {
	return binds{tasks: p.Tasks, named: !s.found.IsZero() && p.id.job.MarkedByOthers()}
}

// has reports whether a task is on a node since it was bound there as a member of the job. The API server does not mark a pod so
// that was created with its node.
func (b binds) has(task *model.Task) bool {
	if !onNode(task) {
		return false
	}
	if _, named := task.BoundWith.Get(); b.named && !named {
		return false
	}
	condition := model.PodScheduled(task.Pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// first returns when the first of the members was bound, as the API server recorded it; zero when none was: they were created
// with their nodes.
func (b binds) first() (at time.Time) {
	for _, task := range b.tasks {
		if b.has(task) {
			at = model.Sooner(at, model.PodScheduled(task.Pod).LastTransitionTime.Time)
		}
	}
	return at
}

// foundStart is a start of a part that a process before has begun. It is not known what its members requested.
func foundStart(p part, found time.Time) start {
	minima := p.minima()
	return start{group: p.job.UID, minima: model.Minima{MinMember: minima.MinMember, Roles: minima.Roles}, found: found}
}

// isComplete reports whether the minimum of the part that was started is bound of a job that does not say now what its parts are.
func (s start) isComplete(id partID, job *model.Job) bool {
	then := job.Present
	then.Minima = s.minima
	for only := range gang.Parts(&then) {
		if only.Role == id.role {
			return only.FirstUnmetMinimum((*model.Task).IsBound) == nil
		}
	}
	return false
}

// isLeft reports whether a member of the part that was started is bound or about to be, or has succeeded; once it is undone,
// whether one is left of which it is not known that the API server deletes it.
func (s start) isLeft(p part) bool {
	if !s.undone {
		return gang.Remains(p.Tasks)
	}
	return p.Count(s.bindsOf(p).has) > 0 || p.Count(isToBeDeleted) > 0
}

// wereEnough reports whether as many members are bound, or have succeeded since, as some start needed: the minimum was
// raised since. Only of groups that others mark do the pods say so.
func (b binds) wereEnough() bool {
	bound, most := 0, 0
	for _, task := range b.tasks {
		if needed, named := task.BoundWith.Get(); named && task.IsBound() {
			bound, most = bound+1, max(most, needed)
		}
	}
	return most > 0 && bound >= most
}

func onNode(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }

// isToBeDeleted reports whether the task's deletion is assumed, and may still be refused.
func isToBeDeleted(task *model.Task) bool { return task.Status == model.Releasing && !task.Deleted() }

func binding(task *model.Task) bool { return task.Status == model.Binding }

func succeeded(task *model.Task) bool { return task.Status == model.Succeeded }
