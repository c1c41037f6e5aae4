package cluster

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/pkg/model"
)

// BudgetSeen is a new version of a disruption budget, or its end.
type BudgetSeen struct {
	Budget *policyv1.PodDisruptionBudget
	Gone   bool
}

// budgets are the disruption budgets.
type budgets struct {
	known map[types.NamespacedName]model.Budget
	// dirty reports that one is not what it was when the last snapshot was taken.
	dirty bool
}

func (e *BudgetSeen) object() (string, metav1.Object, bool) {
	return "PodDisruptionBudget", e.Budget, e.Gone
}

func (e *BudgetSeen) apply(s *State, _ types.UID) Effect {
	key := types.NamespacedName{Namespace: e.Budget.Namespace, Name: e.Budget.Name}
	before, known := s.budgets.known[key]
	after := budgetOf(e.Budget)
	switch {
	case e.Gone:
		delete(s.budgets.known, key)
	case known && before.Allowed == after.Allowed && before.ReleasesUnready == after.ReleasesUnready &&
		before.Selector.String() == after.Selector.String():
		return Effect{}
	default:
		s.budgets.known[key] = after
	}
	s.budgets.dirty = true
	return Effect{Schedule: true}
}

// budgetOf reads a budget as the eviction subresource does. A budget whose latest change the disruption controller has not
// processed yet allows nothing; it does not hold pods that are not ready, of which the subresource does not ask that. A budget
// without a selector, or with one that cannot be read, covers no pod.
func budgetOf(object *policyv1.PodDisruptionBudget) model.Budget {
	budget := model.Budget{Namespace: object.Namespace, Name: object.Name, Selector: labels.Nothing()}
	if selector, err := metav1.LabelSelectorAsSelector(object.Spec.Selector); err == nil {
		budget.Selector = selector
	}
	if object.Status.ObservedGeneration >= object.Generation {
		budget.Allowed = max(0, object.Status.DisruptionsAllowed)
	}
	budget.ReleasesUnready = ptr.Deref(object.Spec.UnhealthyPodEvictionPolicy, "") == policyv1.AlwaysAllow ||
		object.Status.CurrentHealthy >= object.Status.DesiredHealthy && object.Status.DesiredHealthy > 0
	return budget
}

// asksOtherBudget reports whether a pod has started, or become ready or unready, so that the Eviction API would give another
// answer. Readiness that no budget asks about changes nothing.
func (s *State) asksOtherBudget(before, after *model.Task) bool {
	a, b, budgets := before.Pod, after.Pod, s.snapshot.Budgets
	return len(budgets) > 0 && a != b && (a.Status.Phase != b.Status.Phase || model.IsReady(&a.Status) != model.IsReady(&b.Status)) &&
		model.AskedBudget(budgets, before) != model.AskedBudget(budgets, after)
}

// patchBudgets gives the snapshot the budgets. Sessions only read them.
func (s *State) patchBudgets() {
	if !s.budgets.dirty {
		return
	}
	s.budgets.dirty = false
	budgets := make([]model.Budget, 0, len(s.budgets.known))
	for _, budget := range s.budgets.known {
		budgets = append(budgets, budget)
	}
	slices.SortFunc(budgets, func(a, b model.Budget) int { return model.CompareBudgets(&a, &b) })
	s.snapshot.Budgets = budgets
}
