package model

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// This file is arithmetic of a job: what it can spare, and the least that its members ask for.

// Surplus returns those of the tasks of a job that it can spare, beyond its minimum and the minima of its roles: the least
// important ones, first the least. The tasks are those that are there; members that have done their work count, too.
func Surplus(job *Job, tasks []*Task) (surplus []*Task) {
	left := len(tasks) + job.Count(Succeeded.Is) - int(job.MinMember)
	if left <= 0 || len(tasks) == 0 || job.EndsTogether {
		return nil
	}
	roles := map[string]int{}
	for _, role := range job.Roles {
		roles[role.Name] = job.Count(func(task *Task) bool { return task.Role == role.Name && Succeeded.Is(task) }) - int(role.MinMember)
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

// MaySpare reports whether the job has members beyond its minimum that may be evicted without the others. It may be that their
// roles can spare none.
func (j *Job) MaySpare() bool { return len(j.Tasks) > int(j.MinMember) && !j.EndsTogether }

// CompareVictims orders members that a job can spare: those first that a client has deleted, with however long a grace, then the
// lowest priority, then those whose grace ends first, then those that started last.
func CompareVictims(a, b *Task) int {
	stays := func(task *Task) int {
		if task.Deleted() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(stays(a), stays(b)), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.GraceSeconds, b.GraceSeconds), StartTime(b).Compare(StartTime(a)), cmp.Compare(a.UID, b.UID))
}

// StartTime returns since when a pod has run, as far as that is known.
func StartTime(task *Task) time.Time {
	if at := task.Pod.Status.StartTime; at != nil {
		return at.Time
	}
	return task.Created
}

// MaxSum bounds sums of requests.
const MaxSum = math.MaxInt64 / 2

// LeastRequest returns the least that so many of the waiting members may ask for of a resource; of all of them when there are
// fewer.
func LeastRequest(job *Job, needs, position int) (least int64) {
	if job.Class.Uniform {
		amount := job.Tasks[0].Request.At(position)
		return amount * min(int64(needs), MaxSum/max(1, amount))
	}
	asks := func(task *Task) bool { return task.Status == Pending && !task.SchedulingGated }
	members := 0
	for _, task := range job.Tasks {
		if asks(task) {
			members++
			least = min(least+task.Request.At(position), MaxSum)
		}
	}
	if needs >= members {
		return least
	}
	amounts := make([]int64, 0, members)
	for _, task := range job.Tasks {
		if asks(task) {
			amounts = append(amounts, task.Request.At(position))
		}
	}
	slices.Sort(amounts)
	least = 0
	for _, amount := range amounts[:needs] {
		least = min(least+amount, MaxSum)
	}
	return least
}

// LeastRequests returns LeastRequest of the first resources, so many as there are dimensions.
func LeastRequests(job *Job, needs, dimensions int) (least Resources) {
	for position := range dimensions {
		least.Set(position, LeastRequest(job, needs, position))
	}
	return least
}
