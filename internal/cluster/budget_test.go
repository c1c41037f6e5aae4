package cluster

import (
	"fmt"
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
		"as it says":           {func(*policyv1.PodDisruptionBudget) {}, 2, true},
		"not worked out yet":   {func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, 0, true},
		"negative":             {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = -1 }, 0, true},
		"of other pods":        {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "y" }, 2, false},
		"of another namespace": {func(b *policyv1.PodDisruptionBudget) { b.Namespace = "other" }, 2, false},
		"of all pods":          {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, 2, true},
		"of no pods":           {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, 2, false},
		"of unready pods, too": {func(b *policyv1.PodDisruptionBudget) {
			b.Status.CurrentHealthy, b.Status.DesiredHealthy = 1, 2
		}, 2, true},
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

// TestBudgetsReleaseUnreadyPods as the eviction subresource does: also where the status is of an earlier generation.
func TestBudgetsReleaseUnreadyPods(t *testing.T) {
	always, healthy := policyv1.AlwaysAllow, policyv1.IfHealthyBudget
	for name, c := range map[string]struct {
		policy           *policyv1.UnhealthyPodEvictionPolicyType
		current, desired int32
		behind           int64
		want             bool
	}{
		"nothing counted":             {nil, 0, 0, 0, false},
		"none desired":                {&healthy, 3, 0, 0, false},
		"too few":                     {&healthy, 1, 2, 0, false},
		"enough":                      {&healthy, 2, 2, 0, true},
		"enough by default":           {nil, 3, 2, 0, true},
		"enough, and behind":          {nil, 3, 2, 1, true},
		"too few, and always":         {&always, 1, 2, 0, true},
		"behind, and always":          {&always, 0, 0, 1, true},
		"a policy of a later version": {new(policyv1.UnhealthyPodEvictionPolicyType), 0, 1, 0, false},
	} {
		one := budget("b", "x", 1)
		one.Spec.UnhealthyPodEvictionPolicy = c.policy
		one.Status.CurrentHealthy, one.Status.DesiredHealthy, one.Generation = c.current, c.desired, 1+c.behind
		if got := budgetOf(stripBudget(one)); got.ReleasesUnready != c.want || got.Allowed != int32(1-c.behind) {
			t.Errorf("%s: %+v, want %t", name, got, c.want)
		}
	}
}

// TestABudgetWithTooManyDisruptedPodsAllowsNone, as the API server has it.
func TestABudgetWithTooManyDisruptedPodsAllowsNone(t *testing.T) {
	one := budget("b", "x", 1)
	one.Status.DisruptedPods = map[string]metav1.Time{}
	for i := range maxDisrupted + 1 {
		if got := budgetOf(stripBudget(one)).Allowed; got != 1 {
			t.Fatalf("with %d disrupted pods %d are allowed", i, got)
		}
		one.Status.DisruptedPods[fmt.Sprint(i)] = metav1.Time{}
	}
	if got := budgetOf(stripBudget(one)).Allowed; got != 0 {
		t.Errorf("%d are allowed", got)
	}
}

func TestEffectOfBudgetEvents(t *testing.T) {
	counted := budget("b", "x", 1)
	counted.Status.CurrentHealthy = 7
	healthy := budget("b", "x", 1)
	healthy.Status.CurrentHealthy, healthy.Status.DesiredHealthy = 2, 2
	for name, c := range map[string]struct {
		event Event
		want  bool
	}{
		"is healthy":     {seen(healthy), true},
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
