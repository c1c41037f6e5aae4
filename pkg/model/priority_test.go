package model

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPriorityIsThatOfTheMembersNeeded compares with what decision 56 says, tried for each priority.
func TestPriorityIsThatOfTheMembersNeeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := &Job{Need: Need{MinMember: rapid.Int32Range(1, 5).Draw(t, "minimum")}}
		for _, role := range []string{"a", "b"} {
			if minimum := rapid.Int32Range(0, 2).Draw(t, role); minimum > 0 {
				job.Roles = append(job.Roles, Role{Name: role, MinMember: minimum})
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "members") {
			task := &Task{
				Role:     rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "role"),
				Priority: rapid.SampledFrom([]int32{0, 50, 100}).Draw(t, "priority"),
			}
			task.Status = rapid.SampledFrom([]Status{Pending, Running, Succeeded, Failed}).Draw(t, "status")
			job.Tasks = append(job.Tasks, task)
		}
		job.SetPriority()
		if want := priorityByTrial(job); job.Priority != want {
			t.Errorf("priority %d, want %d", job.Priority, want)
		}
	})
}

// priorityByTrial returns the highest priority at which the members are enough: those that run alone, or all that run and those
// that wait; that of the lowest member when they are not enough together, and zero when none lives.
func priorityByTrial(job *Job) (lowest int32) {
	lives := func(task *Task) bool { return task.Status == Pending || task.Status == Running }
	var priorities []int32
	for _, task := range job.Tasks {
		if lives(task) {
			priorities = append(priorities, task.Priority)
		}
	}
	slices.Sort(priorities)
	for _, priority := range slices.Backward(priorities) {
		lowest = priority
		enough := func(minimum int32, counts func(*Task) bool) bool {
			run := job.Count(func(task *Task) bool { return counts(task) && task.Status != Failed && task.Status != Pending })
			above := job.Count(func(task *Task) bool {
				return counts(task) && (task.Status == Succeeded || task.Status == Running && task.Priority >= priority)
			})
			waiting := job.Count(func(task *Task) bool { return counts(task) && task.Status == Pending && task.Priority >= priority })
			return above >= int(minimum) || run == above && above+waiting >= int(minimum)
		}
		if enough(job.MinMember, func(*Task) bool { return true }) && !slices.ContainsFunc(job.Roles, func(role Role) bool {
			return !enough(role.MinMember, func(task *Task) bool { return task.Role == role.Name })
		}) {
			break
		}
	}
	return lowest
}
