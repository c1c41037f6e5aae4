package cluster

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestBudgetsInTheSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*policyv1.PodDisruptionBudget)
		allowed int32
		covers  bool
	}{
		"as it says":            {func(*policyv1.PodDisruptionBudget) {}, 2, true},
		"not worked out yet":    {func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, 0, true},
		"negative":              {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = -1 }, 0, true},
		"of other pods":         {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "y" }, 2, false},
		"of another namespace":  {func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }, 2, false},
		"of all pods":           {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, 2, true},
		"of no pods":            {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, 2, false},
		"with a selector wrong": {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "not a value" }, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := budget("b", "x", 2)
			c.change(b)
			s := newState(pod("p", label("app", "x")), budget("c", "z", 5), b, budget("a", "z", 5))
			budgets := snap(t, s, start).Budgets
			if len(budgets) != 3 || model.CompareBudgets(&budgets[0], &budgets[1]) >= 0 || model.CompareBudgets(&budgets[1], &budgets[2]) >= 0 {
				t.Fatalf("budgets %+v, want three, sorted", budgets)
			}
			for _, got := range budgets {
				if got.Name == "b" && (got.Allowed != c.allowed || got.Covers(taskIn(s.snapshot, "p")) != c.covers) {
					t.Errorf("%+v, want %d allowed, covers %t", got, c.allowed, c.covers)
				}
			}
		})
	}
}

func TestEffectOfBudgetEvents(t *testing.T) {
	counted := budget("b", "x", 1)
	counted.Status.CurrentHealthy = 7
	for name, c := range map[string]struct {
		event Event
		want  bool
	}{
		"allows more":    {seen(budget("b", "x", 2)), true},
		"allows less":    {seen(budget("b", "x", 0)), true},
		"of other pods":  {seen(budget("b", "y", 1)), true},
		"only counted":   {seen(counted), false},
		"another one":    {seen(budget("c", "x", 1)), true},
		"gone":           {gone(budget("b", "x", 1)), true},
		"was never seen": {gone(budget("c", "x", 1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newState(budget("b", "x", 1))
			if got := s.Apply(c.event); got.Schedule != c.want || got.Report {
				t.Errorf("effect %+v, want schedule %t", got, c.want)
			}
		})
	}
}
