package model

import "slices"

// SetPriority works out the priority of the job: the highest at which the members of that priority or above are enough for it
// to start, or to go on, for its minimum and for that of each role. Members with scheduling gates do not count. While members are
// missing all of them are needed, and it is the lowest. ClassPriority lowers it; without a living pod it is that, or zero.
//
// So a quota of pods by PriorityClass is one of gangs, too.
func (j *Job) SetPriority() {
	priority, lives := j.lowestNeeded(j.MinMember, func(*Task) bool { return true })
	for _, role := range j.Roles {
		needed, any := j.lowestNeeded(role.MinMember, func(task *Task) bool { return task.Role == role.Name })
		if any {
			priority = min(priority, needed)
		}
	}
	if class := j.ClassPriority; class != nil && (!lives || *class < priority) {
		priority = *class
	}
	j.Priority = priority
}

// lowestNeeded returns the priority of the n-th of the existing members that count, the highest first; that of the last when
// there are fewer, and of the first when members that have succeeded are enough. Where none exists, those count that have gates
// or are leaving. lives is false where all have ended.
func (j *Job) lowestNeeded(n int32, counts func(*Task) bool) (priority int32, lives bool) {
	var exist, others []int32
	for _, task := range j.Tasks {
		switch {
		case !counts(task) || task.Status == Failed:
		case task.Status == Succeeded:
			n--
		case task.Exists():
			exist = append(exist, task.Priority)
		default:
			others = append(others, task.Priority)
		}
	}
	if len(exist) == 0 {
		exist = others
	}
	if len(exist) == 0 {
		return 0, false
	}
	slices.Sort(exist)
	return exist[max(0, len(exist)-int(max(n, 1)))], true
}

// PriorityOf returns the priority of a member that the job does not need: the lower of its own and the job's.
func (j *Job) PriorityOf(task *Task) int32 { return min(task.Priority, j.Priority) }
