package lifecycle

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// part is what of a gang starts as a whole: what is made first, or a role that is made later. Most gangs are one part.
type part struct {
	model.Part
	job *model.Job
}

// partID names a part; its role is empty for what is made first.
type partID struct {
	job  model.JobKey
	role string
}

// partsOf returns the parts of a gang with the minima that its group states, the first one first. Members of an earlier attempt
// of a JobSet are in none.
func partsOf(job *model.Job) iter.Seq[part] {
	return func(yield func(part) bool) {
		for one := range gang.Parts(&job.Present) {
			if !yield(part{one, job}) {
				return
			}
		}
	}
}

func (p part) id() partID    { return partID{p.job.Key, p.Role} }
func (p part) isFirst() bool { return p.Role == "" }

// isPart reports whether a job has such a part, as far as is known now.
func isPart(id partID, job *model.Job) bool {
	is := func(role model.Role) bool { return role.MadeLater && role.Name == id.role }
	return job.IsSchedulableGroup() && (id.role == "" || slices.ContainsFunc(job.Present.Roles, is))
}

// isBoundOf reports whether these minima of the part are bound of a job that does not say now what its parts are.
func (id partID) isBoundOf(job *model.Job, minima model.Minima) bool {
	then := job.Present
	then.Minima = minima
	for only := range gang.Parts(&then) {
		if only.Role == id.role {
			return part{only, job}.isBound()
		}
	}
	return false
}

// minima are those of the gang once the part has begun, and what its members on nodes request.
func (p part) minima() model.Minima {
	begun := &p.job.Present
	if p.isFirst() {
		begun = &p.Part
	}
	return model.Minima{MinMember: begun.MinMember, Roles: begun.Roles, Requests: model.HeldBy(begun.Tasks)}
}

// all are the members of the part, with all that were made since it had begun.
func (p part) all() []*model.Task {
	if p.isFirst() {
		return p.job.Present.Tasks
	}
	return p.Tasks
}

// remains reports whether one of all is bound or about to be, or has succeeded.
func (p part) remains() bool { return gang.Remains(p.all()) }

// isBound reports whether the minimum of the part is bound.
func (p part) isBound() bool { return p.FirstUnmetMinimum((*model.Task).IsBound) == nil }

// wereEnough reports whether as many members are bound, or have succeeded since, as some start needed: the minimum was
// raised since. Only of groups that others mark do the pods say so.
func (p part) wereEnough() bool {
	bound, most := 0, 0
	for _, task := range p.Tasks {
		if needed, named := task.BoundWith.Get(); named && task.IsBound() {
			bound, most = bound+1, max(most, needed)
		}
	}
	return most > 0 && bound >= most
}

// wasBound reports whether a task is on a node since a scheduler has bound it there. The API server does not mark a pod so that
// was created with its node.
func wasBound(task *model.Task) bool {
	if !onNode(task) {
		return false
	}
	condition := model.PodScheduled(task.Pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

func onNode(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }

// isToBeDeleted reports whether the task's deletion is assumed, and may still be refused.
func isToBeDeleted(task *model.Task) bool { return task.Status == model.Releasing && !task.Deleted() }
