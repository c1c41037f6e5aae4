package model

import (
	"cmp"

	"k8s.io/apimachinery/pkg/labels"
)

// Budget is what a PodDisruptionBudget allows now.
type Budget struct {
	Namespace, Name string
	// Selector selects the pods of the namespace that the budget protects; never nil.
	Selector labels.Selector
	// Allowed is how many of them may be evicted now, as last written by the disruption controller.
	Allowed int32
}

// Covers reports whether evicting the task counts against the budget. One that is being deleted does not, as the API server has
// it (kubernetes/pkg/registry/core/pod/storage/eviction.go).
func (b *Budget) Covers(task *Task) bool {
	return task.Pod.DeletionTimestamp == nil && task.Namespace == b.Namespace && b.Selector.Matches(labels.Set(task.Pod.Labels))
}

// CompareBudgets orders budgets by namespace and name.
func CompareBudgets(a, b *Budget) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
