package cluster

import (
	"cmp"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// compare says what follows from the difference between two versions of a pod: what it affects, and whether the fields, the list
// of tasks or the questions of its job may have changed. A task that goes from node to node, or begins to run where it was
// bound, changes none of these. One of the versions is nil when the pod was not known, or is gone.
func (s *State) compare(before, after *podState) (effect Effect, refill bool) {
	if before == nil || after == nil {
		return Effect{Schedule: true, Report: cmp.Or(before, after).task.Job != model.JobKey{}}, true
	}
	a, b := &before.task, &after.task
	moved, waits := a.Placement != b.Placement, b.Status == model.Pending
	expected := a.Node == b.Node && isOnNode(a.Status) && isOnNode(b.Status)
	joins := a.Job != b.Job || a.MinMember != b.MinMember || a.Role != b.Role || a.Priority != b.Priority || a.Nominated != b.Nominated ||
		a.SchedulingGated != b.SchedulingGated || a.Invalid.String() != b.Invalid.String() || !sources.SaysTheSame(a.Says(), b.Says()) ||
		s.queues.any() && a.Says().Queue != b.Says().Queue
	asks := !a.Devices.Equal(b.Devices) || !sameCPUs(a.Isolated, b.Isolated) || !a.Request.Equal(b.Request) || a.NonZeroDefaults != b.NonZeroDefaults ||
		waits && a.Shape != b.Shape || a.Pod != b.Pod && differentQuestion(a.Pod, b.Pod, waits, expected)
	whole := s.makesWhole(before, after)
	protection := s.asksOtherBudget(a, b)
	effect = Effect{
		Schedule: moved && !expected || joins || asks || protection || whole && (s.pods.wait(b.Job) || s.snapshot.Job(b.Job).Invalid != nil) ||
			len(s.reserved) > 0 && !sameStartTime(a.Pod, b.Pod), // when capacity is expected to be free depends on it
		Report: (moved || joins || asks) && (a.Job != model.JobKey{} || b.Job != model.JobKey{}),
	}
	refill = joins || whole || protection || before.finished() != after.finished() || (a.Status == model.Pending) != waits ||
		after.finished() && !sources.EndedAt(a.Pod).Equal(sources.EndedAt(b.Pod)) ||
		a.Status.CountsTowardMinimum() != b.Status.CountsTowardMinimum() || !a.Created.Equal(b.Created) || a.Shape != b.Shape ||
		a.MayUseDeviceClass != b.MayUseDeviceClass ||
		waits && a.Pod != b.Pod && !maps.Equal(a.Pod.Labels, b.Pod.Labels) // others are drawn to them, or kept away: itself, too
	return effect, refill
}

// differentQuestion reports whether two versions of a pod differ in what placement reads of it, other than its request and shape.
// Most of that counts only while it waits; labels of its node do not count where it was expected there.
func differentQuestion(a, b *corev1.Pod, waits, expected bool) bool {
	return !a.DeletionTimestamp.Equal(b.DeletionTimestamp) || // decides from when on the pod is stuck
		!sameLabels(a.Labels, b.Labels, expected) ||
		waits && (!sameOwnAnnotations(a.Annotations, b.Annotations) ||
			!equality.Semantic.DeepEqual(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses))
}

// makesWhole reports whether a container of a group without a status of ours has begun to run that was not known to have been
// whole, or of which this was not known of the part that the pod is in.
func (s *State) makesWhole(before, after *podState) bool {
	if key := after.task.Job; (key.IsImplicit() || key.IsForeign()) && after.task.Started && !before.task.Started {
		job := s.snapshot.Job(key)
		return job != nil && (!job.Whole || job.InRoleNotBegun(&after.task))
	}
	return false
}

// sameStartTime reports whether two versions of a pod began to run at the same time, and may do so for as long.
func sameStartTime(a, b *corev1.Pod) bool {
	return a.Status.StartTime.Equal(b.Status.StartTime) && equality.Semantic.DeepEqual(a.Spec.ActiveDeadlineSeconds, b.Spec.ActiveDeadlineSeconds)
}

// isOnNode reports whether a pod has its place; from one such status to the next nothing changes for other pods.
func isOnNode(status model.Status) bool {
	return status == model.Binding || status == model.Bound || status == model.Running
}

// sameLabels compares labels; those of the node, which the API server copies to the pod as it is bound, do not count
// when the pod was expected there.
func sameLabels(a, b map[string]string, expected bool) bool {
	if maps.Equal(a, b) {
		return true
	}
	if !expected {
		return false
	}
	copied := func(key, _ string) bool { return strings.HasPrefix(key, "topology.kubernetes.io/") }
	a, b = maps.Clone(a), maps.Clone(b)
	maps.DeleteFunc(a, copied)
	maps.DeleteFunc(b, copied)
	return maps.Equal(a, b)
}

// sameOwnAnnotations compares the annotations that mean something to us.
func sameOwnAnnotations(a, b map[string]string) bool {
	return within(a, b) && within(b, a)
}

func within(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; isOwnAnnotation(key) && (!ok || other != value) {
			return false
		}
	}
	return true
}

// isOwnAnnotation reports whether an annotation is one of the project's.
func isOwnAnnotation(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(domain, ".tutti.dev")
}
