package model

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestAskedBudget has the answers of the eviction subresource, for pods of each phase that are ready or not, under no, one or two
// budgets.
func TestAskedBudget(t *testing.T) {
	over := func(namespace string, releases bool) Budget {
		return Budget{Namespace: namespace, Selector: labels.Everything(), ReleasesUnready: releases}
	}
	other, holds, releases := over("other", true), over("ns", false), over("ns", true)
	both := []Budget{other, holds, releases}
	ready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	unready := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionUnknown}}}
	for name, c := range map[string]struct {
		budgets []Budget
		status  corev1.PodStatus
		deleted bool
		want    int
	}{
		"none":                             {nil, ready, false, Unasked},
		"of others":                        {[]Budget{other}, ready, false, Unasked},
		"ready":                            {[]Budget{other, releases}, ready, false, 1},
		"ready, stripped":                  {[]Budget{other, releases}, corev1.PodStatus{Phase: corev1.PodRunning, Reason: ReasonReady}, false, 1},
		"unready, though it has the mark":  {[]Budget{releases}, corev1.PodStatus{Phase: corev1.PodRunning, Reason: ReasonReady, Conditions: unready.Conditions}, false, Unasked},
		"unready and held":                 {[]Budget{other, holds}, unready, false, 1},
		"unready and released":             {[]Budget{other, releases}, unready, false, Unasked},
		"no condition, held":               {[]Budget{holds}, corev1.PodStatus{Phase: corev1.PodRunning}, false, 0},
		"no condition, released":           {[]Budget{releases}, corev1.PodStatus{Phase: corev1.PodRunning}, false, Unasked},
		"of a phase that is not known":     {[]Budget{holds}, corev1.PodStatus{Phase: corev1.PodUnknown}, false, 0},
		"two, ready":                       {both, ready, false, 3},
		"two, unready":                     {both, unready, false, 3},
		"two that release it, unready":     {[]Budget{releases, releases}, unready, false, 2},
		"two, has not started":             {both, corev1.PodStatus{Phase: corev1.PodPending}, false, Unasked},
		"has not started":                  {[]Budget{holds}, corev1.PodStatus{Phase: corev1.PodPending}, false, Unasked},
		"has failed":                       {both, corev1.PodStatus{Phase: corev1.PodFailed}, false, Unasked},
		"has succeeded":                    {both, corev1.PodStatus{Phase: corev1.PodSucceeded}, false, Unasked},
		"is being deleted":                 {both, ready, true, Unasked},
		"unready, of which two are others": {[]Budget{other, other, holds}, unready, false, 2},
	} {
		pod := &corev1.Pod{Status: c.status}
		if c.deleted {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		if got := AskedBudget(c.budgets, &Task{PodRef: PodRef{Namespace: "ns"}, Pod: pod}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
