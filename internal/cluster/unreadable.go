package cluster

import (
	"fmt"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file handles an object over which the code that reads it panics: a translator, kube-scheduler's code, or ours. The state
// keeps such an object with its name and a reason. It costs only its own job, or the node itself.

// longestReason is how much of the value of a panic is shown, in bytes.
const longestReason = 256

// buildOrFallback returns what build makes, else, when that panics, what instead makes of the reason.
func buildOrFallback[T any](build func() T, instead func(why string) T) (made T) {
	defer func() {
		if what := recover(); what != nil {
			why := strings.Join(strings.Fields(fmt.Sprint(what)), " ")
			made = instead(strings.ToValidUTF8(why[:min(len(why), longestReason)], ""))
		}
	}()
	return build()
}

// buildPod is readRecord for any pod.
func (s *State) buildPod(pod *corev1.Pod, before, earlier *podState) *podState {
	if before != nil && before.task.Pod == pod && before.task.Invalid != nil && before.task.Invalid.Code == model.Malformed {
		return before // what is left of it says less than it did
	}
	return buildOrFallback(func() *podState { return s.readRecord(pod, before, earlier) }, func(why string) *podState {
		why = fmt.Sprintf("pod %s/%s could not be read: %s", pod.Namespace, pod.Name, why)
		s.malformed = why
		return s.unreadablePod(pod, before, &model.Refusal{Code: model.Malformed, Detail: why})
	})
}

// unreadablePod says where a pod is and nothing of what it wants, so it is never placed. On its node it takes what it took
// before, else no more than its place among the pods.
func (s *State) unreadablePod(pod *corev1.Pod, before *podState, refused *model.Refusal) *podState {
	bare := &corev1.Pod{
		ObjectMeta: stripMeta(&pod.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName, SchedulerName: pod.Spec.SchedulerName},
		Status:     corev1.PodStatus{Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName},
	}
	if held, holds := pod.Annotations[isolated.AssignedAnnotation]; holds { // no other pod may be given the same
		bare.Annotations = map[string]string{isolated.AssignedAnnotation: held}
	}
	r := &podState{invalid: refused}
	t := &r.task
	t.PodRef = model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}
	t.Created, t.Pod = pod.CreationTimestamp.Time, bare
	if s.schedulers[pod.Spec.SchedulerName] {
		r.membership, t.Role = groups.Of(pod), groups.Role(pod)
	}
	s.membershipOf(r)
	t.Started = hasStarted(pod)
	if pod.Spec.Priority != nil {
		t.Priority = *pod.Spec.Priority
	}
	if before != nil && !before.finished() {
		t.Request = before.task.Request.Clone()
	}
	t.Request.Set(model.Pods, 1)
	t.Shape = unique.Make("malformed")
	r.assume(before, s.snapshot.Now)
	return r
}

// buildNode is readNode for any node.
func (s *State) buildNode(object *corev1.Node) *nodeState {
	return buildOrFallback(func() *nodeState { return s.readNode(object) }, func(why string) *nodeState {
		s.malformed = fmt.Sprintf("node %s could not be read: %s", object.Name, why)
		return unreadableNode(object, why)
	})
}

// recordUnreadable records an event that could not be processed. A group keeps what was known of it, and does not start before
// it can be read.
func (s *State) recordUnreadable(event Event, why string) Effect {
	s.malformed = "an object could not be read: " + why
	if event.Kind != KindGroup {
		return Effect{}
	}
	key := groups.Key(event.Group)
	s.malformed = fmt.Sprintf("PodGroup %s could not be read: %s", key, why)
	s.unreadable[key] = &model.Refusal{Code: model.Malformed, Detail: s.malformed}
	s.setGroup(key, event.Group)
	s.dirtyJobs[key] = struct{}{}
	return Effect{Schedule: true, Report: true}
}
