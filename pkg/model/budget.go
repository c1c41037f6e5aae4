package model

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is what a PodDisruptionBudget allows now.
type Budget struct {
	Namespace, Name string
	// Selector selects the pods of the namespace that the budget protects; never nil.
	Selector labels.Selector
	// Allowed is how many of them may be evicted now, as last written by the disruption controller.
	Allowed int32
	// ReleasesUnready reports that those of them which run and are not ready may be evicted besides.
	ReleasesUnready bool
}

// Unasked is in place of the index of a budget where none is asked.
const Unasked = -1

// AskedBudget returns what the Eviction API will answer to the eviction of a pod: the index of the budget that it asks, and
// charges; Unasked where it evicts the pod without one, and len(budgets) where it never does, since more than one budget covers
// the pod. These are the rules of kubernetes/pkg/registry/core/pod/storage/eviction.go, in their order.
func AskedBudget(budgets []Budget, task *Task) int {
	pod, asked := task.Pod, Unasked
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return Unasked
	}
	for i := range budgets {
		switch {
		case !budgets[i].Covers(task):
		case asked != Unasked:
			return len(budgets)
		default:
			asked = i
		}
	}
	if asked != Unasked && budgets[asked].ReleasesUnready && !IsReady(&pod.Status) {
		return Unasked
	}
	return asked
}

// Covers reports whether a pod is one of those that the budget protects.
func (b *Budget) Covers(task *Task) bool {
	return task.Namespace == b.Namespace && b.Selector.Matches(labels.Set(task.Pod.Labels))
}

// ReasonReady is the reason in the status of a stripped pod that is ready: the condition would take 112 bytes of each.
const ReasonReady = "internal.tutti.dev/ready"

// IsReady reports whether a pod is ready by its status, stripped or not.
func IsReady(status *corev1.PodStatus) bool {
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return status.Reason == ReasonReady
}

// CompareBudgets orders budgets by namespace and name.
func CompareBudgets(a, b *Budget) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
