package model

import (
	"cmp"
	"slices"
)

// SetPriority works out the priority of the job: the highest at which the members of that priority or above are enough for it
// to start, or to go on, for its minimum and for that of each role. Members that have succeeded are not needed any more, and
// members with scheduling gates do not count, unless no other is left. While members are missing all of them are needed, and it
// is the lowest. ClassPriority lowers it; without a living pod it is that, or zero.
//
// So a quota of pods by PriorityClass is one of gangs, too.
func (j *Job) SetPriority() {
	living := j.living()
	j.Priority = 0
	if len(living) > 0 {
		lowest := living[len(living)-1].Priority
		j.Priority = j.priorityOfNth(living, j.MinMember, lowest, func(*Task) bool { return true })
		for _, role := range j.Roles {
			inRole := func(task *Task) bool { return task.Role == role.Name }
			j.Priority = min(j.Priority, j.priorityOfNth(living, role.MinMember, lowest, inRole))
		}
	}
	if class := j.ClassPriority; class != nil && (len(living) == 0 || *class < j.Priority) {
		j.Priority = *class
	}
}

// living returns the existing members that have not ended, the highest priority first; those that have gates or are leaving
// when there is no other.
func (j *Job) living() []*Task {
	var exist, others []*Task
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
	slices.SortFunc(exist, func(a, b *Task) int { return cmp.Compare(b.Priority, a.Priority) })
	return exist
}

// priorityOfNth returns the priority of the last of the members that a minimum needs besides those that have succeeded: missing
// when there are fewer, and that of the first when none is needed.
func (j *Job) priorityOfNth(living []*Task, minimum, missing int32, counts func(*Task) bool) int32 {
	needs := int(minimum) - j.Count(func(task *Task) bool { return task.Status == Succeeded && counts(task) })
	if needs <= 0 {
		return living[0].Priority
	}
	for _, task := range living {
		if counts(task) {
			if needs--; needs == 0 {
				return task.Priority
			}
		}
	}
	return missing
}

// PriorityOf returns the priority of a member that the job does not need: the lower of its own and the job's.
func (j *Job) PriorityOf(task *Task) int32 { return min(task.Priority, j.Priority) }
