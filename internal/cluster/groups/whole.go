package groups

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file says what a gang needs that was whole and has lost members. Members that have finished may be deleted, and are not
// replaced; the replacement of another one must not wait for them.
//
// An implicit group has no condition. That a container of a member runs or has done its work says in its place that it was
// whole: all members of a start are bound before most containers run, and running work is not ended for the sake of a start.

// Whole reports whether the PodGroup has had its minimum bound, as its condition Scheduled says.
func Whole(group *v1alpha1.PodGroup) bool {
	return meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionScheduled)
}

// Lower lowers the minima of a job to the members that exist, if it was whole, has a member with a node and one that waits.
//
// Invariant: a job that was never whole keeps its minima, and so does one whose minima the existing members reach.
func Lower(job *model.Job) {
	if !Left(job) || !slices.ContainsFunc(job.Tasks, waits) || job.FirstUnmetMinimum((*model.Task).Exists) == nil {
		return
	}
	usable := func(task *model.Task) bool { return task.Status.CountsTowardMinimum() || waits(task) }
	job.Lowered = true
	job.MinMember = min(job.MinMember, int32(job.Count(usable)))
	roles := make([]model.Role, 0, len(job.Roles))
	for _, role := range job.Roles {
		has := job.Count(func(task *model.Task) bool { return task.Role == role.Name && usable(task) })
		if role.MinMember = min(role.MinMember, int32(has)); has > 0 {
			roles = append(roles, role)
		}
	}
	job.Roles = roles
}

// Stated returns the job with the minima that its group states: the job itself unless they were lowered. group is nil for an
// implicit group.
func Stated(job *model.Job, group *v1alpha1.PodGroup) *model.Job {
	if !job.Lowered {
		return job
	}
	stated := *job
	stated.Lowered, stated.BelowMinimum = false, true // or nothing would have been lowered
	if group == nil {
		FillImplicit(&stated)
	} else {
		Fill(&stated, group)
	}
	return &stated
}

// Left reports whether the job was whole and has a member with a node: it is not held back by lack of members.
func Left(job *model.Job) bool { return job.Whole && slices.ContainsFunc(job.Tasks, hasNode) }

// hasNode reports whether the task has a node, or a bind to one is in flight.
func hasNode(task *model.Task) bool {
	return task.Status == model.Binding || task.Status == model.Bound || task.Status == model.Running
}

// waits reports whether the task can be placed as soon as a node has capacity for it.
func waits(task *model.Task) bool {
	return task.Status == model.Pending && !task.SchedulingGated && task.Invalid == nil
}
