package model

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// This file is since when tasks and jobs run, what a job says of how long, and which of two times comes first.

// OverrunGrace is for how long, in seconds, an end that has passed is still believed: pods take a while to end.
const OverrunGrace = 60

// RunsSince returns when a task began to run, or came to its node, in seconds since 1970, as far as that is known; else now.
func (t *Task) RunsSince(now int64) int64 {
	if started := t.Pod.Status.StartTime; started != nil {
		return started.Unix()
	}
	if at, ok := t.boundAt(); ok {
		return at
	}
	if t.Status == Bound || t.Status == Running || t.Status == Releasing {
		return t.Created.Unix()
	}
	return now
}

// OnNodeSince returns when a task came to its node, in seconds since 1970: when it was bound, or as RunsSince where that is not
// known. It may begin to run much later.
func (t *Task) OnNodeSince(now int64) int64 {
	if at, ok := t.boundAt(); ok {
		return at
	}
	return t.RunsSince(now)
}

// boundAt returns when the API server bound the task, in seconds since 1970; ok is false when that is not known.
func (t *Task) boundAt() (at int64, ok bool) {
	if c := PodScheduled(t.Pod); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Unix(), true
	}
	return 0, false
}

// RunsSince returns when the first of the job's members that are on a node began to run, in seconds since 1970; now when none is.
func (j *Job) RunsSince(now int64) int64 {
	began := now
	for _, task := range j.Tasks {
		if task.Status.Occupies() {
			began = min(began, task.RunsSince(now))
		}
	}
	return began
}

// OverrunsAt returns when the job will have run for longer than its group says, in seconds since 1970; ok is false when the group
// says nothing, or no member is on a node.
func (j *Job) OverrunsAt(now int64) (at int64, ok bool) {
	said := j.ExpectedRunSeconds
	if said == nil || *said < 0 || j.Count(func(task *Task) bool { return task.Status.Occupies() }) == 0 {
		return 0, false
	}
	began := j.RunsSince(now)
	if *said > math.MaxInt64-OverrunGrace-max(0, began)-1 {
		return 0, false
	}
	return began + *said + OverrunGrace, true
}

// IsUnheld reports whether nothing that the job said before it ran holds it to an end any more: its group is gone, or was created
// after the first member came to its node, and a member on a node has no deadline, or one that has passed. A group of the same
// second counts as one of before if it says something.
func (j *Job) IsUnheld(now int64) bool {
	if j.Key.Source != SourcePodGroup {
		return false
	}
	first, held := int64(math.MaxInt64), true // not now, which may be before what another clock has written
	for _, task := range j.Tasks {
		if task.Status != Bound && task.Status != Running {
			continue
		}
		if at, ok := task.boundAt(); ok {
			first = min(first, at)
		} else {
			first = min(first, task.RunsSince(now))
		}
		deadline := task.Pod.Spec.ActiveDeadlineSeconds
		held = held && deadline != nil && *deadline > now-task.RunsSince(now)-OverrunGrace
	}
	created := j.Created.Unix()
	return !held && (!j.HasGroup || created > first || created == first && j.ExpectedRunSeconds == nil)
}

// Overruns reports whether the job runs, and has run for longer than its group says.
func (j *Job) Overruns(now int64) bool {
	at, ok := j.OverrunsAt(now)
	return ok && at <= now
}

// PodScheduled returns the condition PodScheduled of a pod, nil when it has none.
func PodScheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled {
			return c
		}
	}
	return nil
}

// Sooner returns the earlier of two times, of which zero is never.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
