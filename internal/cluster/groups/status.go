package groups

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what the status of a PodGroup keeps for the scheduler itself to read after a restart: since when the group has
// waited with all that it needs, since when it has been degraded, and what is reserved for it.

// WaitingSince returns since when the job has had its members and has waited for capacity, as its PodGroup is to show it. before
// is what it shows, nil when nothing; refused reports whether the last cycle refused the job. It stays as it is between a
// decision and the binds: a start that fails does not make the group wait from the beginning.
func WaitingSince(job *model.Job, before *metav1.Time, refused bool, now metav1.Time) *metav1.Time {
	switch {
	case job.Invalid != nil || job.Finished() || job.FirstUnmetMinimum(bound) == nil || job.FirstUnmetMinimum(exists) != nil:
		return nil
	case before == nil && refused:
		return &now
	}
	return before
}

// defaultLossTimeout is how long a group that restarts may be degraded when it does not say.
const defaultLossTimeout = 300 * time.Second

// DegradedSince returns since when the job, which was whole, has been below its minimum because it has lost members, as its
// PodGroup is to show it; nil when it is not, or when nothing but its minimum has changed. before is what the PodGroup shows.
func DegradedSince(job *model.Job, before v1alpha1.PodGroupStatus, whole bool, now metav1.Time) *metav1.Time {
	has := job.Count(bound)
	switch {
	case !whole || has == 0 || job.Finished() || job.FirstUnmetMinimum(bound) == nil:
		return nil
	case before.DegradedSince != nil:
		return before.DegradedSince
	case has < int(before.Placed):
		return &now
	}
	return nil
}

// RestartAt returns when what is left of a degraded group is to be deleted, so that it starts again; ok is false when it is
// to be left alone.
func RestartAt(group *v1alpha1.PodGroup) (at time.Time, ok bool) {
	if group == nil || group.Spec.OnMemberLoss != v1alpha1.MemberLossRestart || group.Status.DegradedSince == nil {
		return at, false
	}
	timeout := defaultLossTimeout
	if seconds := group.Spec.MemberLossTimeoutSeconds; seconds != nil {
		timeout = time.Duration(min(*seconds, longestLossTimeout)) * time.Second
	}
	return group.Status.DegradedSince.Add(timeout), true
}

// longestLossTimeout, in seconds, is as good as never, and can be counted in nanoseconds.
const longestLossTimeout = 100 * 365 * 24 * 3600

// bound reports whether the API server knows the task to be on a node, or done.
func bound(task *model.Task) bool {
	return task.Status.CountsTowardMinimum() && task.Status != model.Binding && task.Status != model.Allocated
}

// exists reports whether a task counts towards the minimum, or would if it had a node.
func exists(task *model.Task) bool {
	return task.Status.CountsTowardMinimum() || task.Status == model.Pending && !task.SchedulingGated
}
