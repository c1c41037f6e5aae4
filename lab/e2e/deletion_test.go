package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestAnEvictionShortensADeletion is what the scheduler, and the API servers that other tests imitate, rely on: the eviction of a
// pod that is being deleted is no longer asked of disruption budgets, and shortens its deletion to a shorter grace, from where it
// began. It does nothing with a grace that is longer, or without one, whatever the pod's own; and what has passed already is a
// second from now.
func TestAnEvictionShortensADeletion(t *testing.T) {
	env.Nodes(t, cluster.Nodes("shortens", 1, nil)...)
	ns := env.Namespace(t)
	pod := env.Pod(ns, "slow", harness.OnNode("shortens-0"), harness.PodLabels(map[string]string{"app": "slow"}),
		harness.PodAnnotations(map[string]string{cluster.StopAfter: "1h"})) // its own grace is zero
	all := intstr.FromString("100%")
	env.Create(t, pod, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "all"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	})
	env.Eventually(t, func() error { return inPhase(t, pod, corev1.PodRunning) })
	const year = 365 * 24 * 3600
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(year)); err != nil {
		t.Fatal(err)
	}
	began := deletion(t, pod, year).Add(-year * time.Second)
	expect := func(what string, seconds *int64, grace int64) (ends time.Time) {
		t.Helper()
		eviction := &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "slow"}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: seconds},
		}
		if err := env.Clientset.CoreV1().Pods(ns).EvictV1(t.Context(), eviction); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return deletion(t, pod, grace)
	}
	seconds := func(n int64) *int64 { return &n }
	expect("without a grace", nil, year)
	expect("longer", seconds(2*year), year)
	if ends := expect("shorter", seconds(3600), 3600); !ends.Equal(began.Add(time.Hour)) {
		t.Errorf("it ends at %s, an hour after its deletion at %s is %s", ends, began, began.Add(time.Hour))
	}
	env.Eventually(t, func() error {
		if passed := time.Since(began); passed < 2*time.Second {
			return fmt.Errorf("it is being deleted for %s", passed)
		}
		return nil
	})
	if ends := expect("passed", seconds(1), 1); ends.Before(began.Add(2 * time.Second)) {
		t.Errorf("it ends at %s, and its deletion began at %s", ends, began)
	}
}

// deletion wants a pod to be being deleted with so many seconds of grace, and returns when it ends.
func deletion(t *testing.T, pod *corev1.Pod, grace int64) time.Time {
	t.Helper()
	var now corev1.Pod
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
		t.Fatal(err)
	}
	if got := now.DeletionGracePeriodSeconds; got == nil || *got != grace {
		t.Fatalf("pod %s is being deleted with %v, want %d s", pod.Name, got, grace)
	}
	return now.DeletionTimestamp.Time
}
