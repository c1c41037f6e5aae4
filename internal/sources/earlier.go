package sources

import (
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about earlier members: of an earlier attempt of a JobSet, or made for an object of the same name that was
// deleted. Their deletion takes a while, and until then they have the marks of the present group.
//
// Invariant: no earlier member counts for the present group.

// withoutEarlier counts as if there were no earlier members. They are about to be deleted, and until they are gone the minima
// are higher by as many.
func withoutEarlier(job *model.Job, count func()) {
	all := job.Tasks
	newest, earlier := byIncarnation(job)
	job.Tasks = newest
	count()
	job.Tasks = all
	addToMinima(job, earlier, 1)
}

// NewestAttempt returns a job as if there were no earlier members: itself when there are none.
func NewestAttempt(job *model.Job) *model.Job {
	if !job.Key.IsForeign() {
		return job
	}
	newest, earlier := byIncarnation(job)
	if len(earlier) == 0 {
		return job
	}
	rest := *job
	rest.Tasks, rest.Roles = newest, slices.Clone(job.Roles)
	addToMinima(&rest, earlier, -1)
	rest.BelowMinimum = BelowMinimum(&rest)
	return &rest
}

// byIncarnation returns the tasks that were made for the present object, in the newest attempt of a JobSet or in none, and the
// earlier ones.
func byIncarnation(job *model.Job) (newest, earlier []*model.Task) {
	objects, last := newestObjects(job), map[string]int(nil) // by the name of the JobSet; most were never tried again
	isGone := func(task *model.Task) bool {
		if objects == nil {
			return false
		}
		object, uid := madeFor(task)
		return uid != objects[object]
	}
	for _, task := range job.Tasks {
		made := &task.Says().Made
		if n, ok := made.Attempt.Get(); ok && n > 0 && !isGone(task) {
			if last == nil {
				last = map[string]int{}
			}
			last[made.Name] = max(last[made.Name], n)
		}
	}
	isEarlier := func(task *model.Task) bool {
		made := &task.Says().Made
		n, ok := made.Attempt.Get()
		return isGone(task) || ok && n < last[made.Name]
	}
	if objects == nil && last == nil || !slices.ContainsFunc(job.Tasks, isEarlier) {
		return job.Tasks, nil
	}
	return selected(job.Tasks, func(task *model.Task) bool { return !isEarlier(task) }), selected(job.Tasks, isEarlier)
}

// object names what pods are made for.
type object struct{ kind, name string }

// newestObjects returns by object the UID that the youngest of its tasks was made for: the task may be seen before the object
// is. It is nil where no two objects have the same name, which is nearly always.
func newestObjects(job *model.Job) map[object]types.UID {
	if !haveSameName(job.Tasks) {
		return nil
	}
	newest, youngest := map[object]types.UID{}, map[object]*model.Task{}
	for _, task := range job.Tasks {
		object, uid := madeFor(task)
		if other := youngest[object]; other == nil || isYounger(task, other, uid == job.UID) {
			newest[object], youngest[object] = uid, task
		}
	}
	return newest
}

// isYounger reports whether a task was created after another one. Of two of the same second it is the one of the job's object, or
// else the one that is not being deleted.
func isYounger(task, other *model.Task, ofJob bool) bool {
	if !task.Created.Equal(other.Created) {
		return task.Created.After(other.Created)
	}
	return ofJob || other.Deleted() && !task.Deleted()
}

// haveSameName reports whether two objects of a name are among those that the tasks are made for. Nearly always there is one
// object.
func haveSameName(tasks []*model.Task) bool {
	if len(tasks) == 0 {
		return false
	}
	first := objectUID(tasks[0])
	if !slices.ContainsFunc(tasks, func(task *model.Task) bool { return objectUID(task) != first }) {
		return false
	}
	uids := map[object]types.UID{}
	return slices.ContainsFunc(tasks, func(task *model.Task) bool {
		object, uid := madeFor(task)
		other, known := uids[object]
		uids[object] = uid
		return known && other != uid
	})
}

// madeFor returns the object that a pod is made for: the one that its marks name, else what controls it. An object that has
// another name in each attempt has none here. Both are empty when nothing controls the pod.
func madeFor(task *model.Task) (of object, uid types.UID) {
	says := task.Says()
	if says.Made.UID != "" {
		return object{says.Made.Kind, says.Made.Name}, says.Made.UID
	}
	if controller := metav1.GetControllerOfNoCopy(task.Pod); controller != nil {
		of = object{controller.Kind, controller.Name}
		if says.Renamed {
			of.name = ""
		}
		return of, controller.UID
	}
	return of, uid
}

// objectUID returns the UID alone.
func objectUID(task *model.Task) types.UID {
	if uid := task.Says().Made.UID; uid != "" {
		return uid
	}
	return owner(task.Pod)
}

// addToMinima adds so many for each of the tasks that exist, in all and for its role.
func addToMinima(job *model.Job, tasks []*model.Task, each int32) {
	for _, task := range tasks {
		if !task.Exists() {
			continue
		}
		add(&job.MinMember, each)
		if i := slices.IndexFunc(job.Roles, func(role model.Role) bool { return role.Name == task.Role }); i >= 0 {
			add(&job.Roles[i].MinMember, each)
		}
	}
}

// add adds to a minimum, up to the largest number that there is.
func add(minimum *int32, n int32) { *minimum = int32(min(int64(*minimum)+int64(n), math.MaxInt32)) }
