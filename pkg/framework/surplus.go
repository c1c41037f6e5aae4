package framework

import (
	"cmp"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Surplus returns those of the tasks of a job that it can spare, beyond its minimum and the minima of its roles: the least
// important ones, first the least. The tasks are those that are there; members that have done their work count, too.
func Surplus(job *model.Job, tasks []*model.Task) (surplus []*model.Task) {
	done := func(task *model.Task) bool { return task.Status == model.Succeeded }
	left := len(tasks) + job.Count(done) - int(job.MinMember)
	if left <= 0 || len(tasks) == 0 {
		return nil
	}
	roles := map[string]int{}
	for _, role := range job.Roles {
		roles[role.Name] = job.Count(func(task *model.Task) bool { return task.Role == role.Name && done(task) }) - int(role.MinMember)
	}
	for _, task := range tasks {
		if _, has := roles[task.Role]; has {
			roles[task.Role]++
		}
	}
	for _, task := range slices.SortedFunc(slices.Values(tasks), CompareVictims) {
		if left == 0 {
			break
		}
		if spare, has := roles[task.Role]; has && spare <= 0 {
			continue
		} else if has {
			roles[task.Role]--
		}
		surplus = append(surplus, task)
		left--
	}
	return surplus
}

// CompareVictims orders members that a job can spare: those first that a client has deleted, with however long a grace, then the
// lowest priority, then those whose grace ends first, then those that started last.
func CompareVictims(a, b *model.Task) int {
	stays := func(task *model.Task) int {
		if task.Deleted() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(stays(a), stays(b)), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.GraceSeconds, b.GraceSeconds), Started(b).Compare(Started(a)), cmp.Compare(a.UID, b.UID))
}

// Started returns since when a pod has run, as far as that is known.
func Started(task *model.Task) time.Time {
	if at := task.Pod.Status.StartTime; at != nil {
		return at.Time
	}
	return task.Created
}
