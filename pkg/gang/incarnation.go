package gang

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about earlier members: of an earlier attempt of a JobSet, or made for an object of the same name that was
// deleted. Their deletion takes a while, and until then they have the marks of the present group.

// byIncarnation returns the members that were made for the present object, in the newest attempt of a JobSet or in none, and the
// earlier ones. of is the UID of the group's object.
func byIncarnation(members []*model.Task, of types.UID) (newest, earlier []*model.Task) {
	objects, last := newestObjects(members, of), map[string]int(nil) // by the name of the JobSet; most were never tried again
	isGone := func(task *model.Task) bool {
		if objects == nil {
			return false
		}
		object, uid := madeFor(task)
		return uid != objects[object]
	}
	for _, task := range members {
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
	if objects == nil && last == nil || !slices.ContainsFunc(members, isEarlier) {
		return members, nil
	}
	return selected(members, func(task *model.Task) bool { return !isEarlier(task) }), selected(members, isEarlier)
}

// object names what pods are made for.
type object struct{ kind, name string }

// newestObjects returns by object the UID that the youngest of its tasks was made for: the task may be seen before the object
// is. It is nil where no two objects have the same name, which is nearly always.
func newestObjects(members []*model.Task, of types.UID) map[object]types.UID {
	if !haveSameName(members) {
		return nil
	}
	newest, youngest := map[object]types.UID{}, map[object]*model.Task{}
	for _, task := range members {
		object, uid := madeFor(task)
		if other := youngest[object]; other == nil || isYounger(task, other, uid == of) {
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
	first := ObjectUID(tasks[0])
	if !slices.ContainsFunc(tasks, func(task *model.Task) bool { return ObjectUID(task) != first }) {
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

// ObjectUID returns the UID of the object that a pod is made for alone; empty when nothing controls the pod.
func ObjectUID(task *model.Task) types.UID {
	_, uid := madeFor(task)
	return uid
}
