package sources

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file tells the runs of a group apart. Members that have ended may be kept for as long as a user likes, and the members of
// the next run have the same marks: an ended run has started nothing of the next one.
//
// Only what pods say of themselves counts, and what the group needs: when each was created, when it ended, and what it was made
// for. So a restart of the scheduler changes nothing.
//
// Invariant: a job has the members of one run, so that no reader of a job needs a rule for the others.

// PresentRun returns the members of the present run of a group, of all of them in CompareTasks order. A run begins with a member
// that was created once all members before it had ended, if it is known when they did. Times are of whole seconds: what was
// created in the second of the last end is taken to have come after it, but not what was created in one second with the member
// before it.
//
// What is made for one object is one run: a Job with more completions than pods at a time may make the next pod when all others
// have ended, and a JobSet the Job of its next step. So is a group of Kueue, which takes no more pods once it has succeeded: one
// that comes later replaces one that has failed.
//
// Nor has a run ended of which fewer members are left than the group needs: minMember or, where that is zero, what a pod of it
// says. Others are gone, which may have run for longer, and what was created since may be in their place. As many as the group
// needs, of which none has had a node, are a run, also while members of the one before are left: these may be deleted one by one
// while the run waits.
func PresentRun(key model.JobKey, tasks []*model.Task, minMember int32) []*model.Task {
	if key.Source == model.SourceKueue || key.Source >= model.SourceJobSet { // the group stands for that object
		return tasks
	}
	first, last, needs := 0, time.Time{}, minMember
	for i, task := range tasks {
		if i > first && task.Created.After(tasks[i-1].Created) && !task.Created.Before(last) && !isMadeWith(tasks[first:i], task) &&
			(i >= first+max(1, int(needs)) || len(tasks)-i >= int(needs) && !slices.ContainsFunc(tasks[i:], hasHadNode)) {
			first, needs = i, minMember
		}
		end := endOf(task)
		if end.IsZero() {
			break // no member after it was created once all before had ended, as far as is known
		}
		last = latest(last, end)
		if minMember == 0 {
			needs = max(needs, task.MinMember)
		}
	}
	return tasks[first:]
}

func hasHadNode(task *model.Task) bool { return task.Status != model.Pending }

// isMadeWith reports whether a task is made for the same object as one of the others, which are looked through from the youngest.
func isMadeWith(others []*model.Task, task *model.Task) bool {
	of := gang.ObjectUID(task)
	if of == "" {
		return false
	}
	for _, other := range slices.Backward(others) {
		if gang.ObjectUID(other) == of {
			return true
		}
	}
	return false
}

// endOf returns when a task ended; zero when it has not, or this is not known.
func endOf(task *model.Task) time.Time {
	if task.Status != model.Succeeded && task.Status != model.Failed {
		return time.Time{}
	}
	return EndedAt(task.Pod)
}

// EndedAt returns when a pod that has ended did so; zero when that is not known. It is the earlier one of two times: the last
// that its kubelet says, whose clock may be ahead, and when the API server took in its status last, which may be written again.
// A pod that was refused, or whose node is gone, has only the second.
func EndedAt(pod *corev1.Pod) time.Time {
	if isShort(pod) {
		return ptr.Deref(pod.Status.StartTime, metav1.Time{}).Time
	}
	said, written := time.Time{}, time.Time{}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if terminated := statuses[i].State.Terminated; terminated != nil {
				said = latest(said, terminated.FinishedAt.Time)
			}
		}
	}
	for i := range pod.Status.Conditions {
		if !said.IsZero() { // a condition alone may be of any time
			said = latest(said, pod.Status.Conditions[i].LastTransitionTime.Time)
		}
	}
	for i := range pod.ManagedFields {
		if entry := &pod.ManagedFields[i]; entry.Subresource == "status" && entry.Time != nil {
			written = latest(written, entry.Time.Time)
		}
	}
	if said.IsZero() || !written.IsZero() && written.Before(said) {
		return written
	}
	return said
}

// KeepEnd writes into what is kept of a pod that has ended when it did, in the place of when it began, which says nothing then.
func KeepEnd(kept, pod *corev1.Pod) {
	if at := EndedAt(pod); !at.IsZero() {
		end := metav1.NewTime(at)
		kept.Status.StartTime = &end
	}
}

// isShort reports whether a pod that has ended is what is kept of one: each pod has a container.
func isShort(pod *corev1.Pod) bool { return len(pod.Spec.Containers) == 0 }
