package model

import (
	"cmp"
	"math"
	"slices"
)

// SetPriority works out the priority of the job. Members that hold capacity count first, then those that wait, the highest
// priority first: it is the lowest of as many as the job needs to start, or to go on, for its minimum and for that of each role.
// So a member that waits does not raise what a gang has without it. Members that have succeeded are not needed any more, and
// members with scheduling gates do not count, unless no other is left. While members are missing all of them are needed, and it
// is the lowest. ClassPriority lowers it; without a living pod it is that, or zero.
//
// So a quota of pods by PriorityClass is one of gangs, too.
func (j *Job) SetPriority() {
	living, lowest := j.living()
	j.Priority = 0
	if len(living) > 0 {
		j.Priority = j.lowestOfNeeded(living, j.MinMember, lowest, func(*Task) bool { return true })
		for _, role := range j.Roles {
			inRole := func(task *Task) bool { return task.Role == role.Name }
			j.Priority = min(j.Priority, j.lowestOfNeeded(living, role.MinMember, lowest, inRole))
		}
	}
	if class := j.ClassPriority; class != nil && (len(living) == 0 || *class < j.Priority) {
		j.Priority = *class
	}
}

// living returns the existing members that have not ended, in the order in which they count, and their lowest priority; those
// that have gates or are leaving when there is no other.
func (j *Job) living() (exist []*Task, lowest int32) {
	var others []*Task
	exist = make([]*Task, 0, len(j.Tasks))
	for _, task := range j.Tasks {
		switch {
		case task.Status == Failed || task.Status == Succeeded:
		case task.Exists():
			exist = append(exist, task)
		default:
			others = append(others, task)
		}
	}
	if len(exist) == 0 {
		exist = others
	}
	if len(exist) == 0 {
		return nil, 0
	}
	lowest, differ := exist[0].Priority, false
	for _, task := range exist {
		lowest, differ = min(lowest, task.Priority), differ || task.Priority != exist[0].Priority
	}
	if differ {
		waits := func(task *Task) int {
			if task.Status == Pending {
				return 1
			}
			return 0
		}
		slices.SortFunc(exist, func(a, b *Task) int {
			return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(b.Priority, a.Priority))
		})
	}
	return exist, lowest
}

// lowestOfNeeded returns the lowest priority of the first members, as many as a minimum needs besides those that have succeeded:
// missing when there are fewer, and the highest of all when none is needed.
func (j *Job) lowestOfNeeded(living []*Task, minimum, missing int32, counts func(*Task) bool) int32 {
	needs := int(minimum) - j.Count(func(task *Task) bool { return task.Status == Succeeded && counts(task) })
	if needs <= 0 {
		return slices.MaxFunc(living, func(a, b *Task) int { return cmp.Compare(a.Priority, b.Priority) }).Priority
	}
	lowest := int32(math.MaxInt32)
	for _, task := range living {
		if counts(task) {
			lowest = min(lowest, task.Priority)
			if needs--; needs == 0 {
				return lowest
			}
		}
	}
	return missing
}

// WithPriority returns the job with another priority, to ask about it: the job itself if it has that.
func (j *Job) WithPriority(priority int32) *Job {
	if j.Priority == priority {
		return j
	}
	as := *j
	as.Priority = priority
	return &as
}

// Candidates returns the waiting members with which the job starts at its priority: those that have it or a higher one. Where
// these are not enough, they are all that wait.
func (j *Job) Candidates() []*Task {
	waiting := j.Pending()
	below := func(task *Task) bool { return task.Priority < j.Priority }
	if !slices.ContainsFunc(waiting, below) {
		return waiting
	}
	usable := func(task *Task) bool {
		return task.Status.CountsTowardMinimum() || task.Status == Pending && !task.SchedulingGated && !below(task)
	}
	if j.FirstUnmetMinimum(usable) != nil {
		return waiting
	}
	return slices.DeleteFunc(waiting, below)
}

// PriorityOf returns the priority of a member that the job does not need: the lower of its own and the job's.
func (j *Job) PriorityOf(task *Task) int32 { return min(task.Priority, j.Priority) }
