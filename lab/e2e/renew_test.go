package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/lab/harness"
)

var cycleCount = regexp.MustCompile(`(?m)^tutti_cycle_duration_seconds_count ([0-9]+)$`)

// cycles returns how many cycles a scheduler has run.
func cycles(t *testing.T, s *harness.Scheduler) int {
	t.Helper()
	text, err := s.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	found := cycleCount.FindSubmatch(text)
	if found == nil {
		t.Fatalf("no number of cycles in\n%s", text)
	}
	count, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// TestRenewalsStartNoCycle renews the sign of life of a node's agent again and again: no cycle is run for it. One that is
// late is noticed when it runs out, and when it is back.
func TestRenewalsStartNoCycle(t *testing.T) {
	t.Parallel()
	lab, _ := quietCluster(t)
	lab.Nodes(t, quietNodes(t, "renew", 1)...)
	agent := publish.New(lab.Clientset, "renew-0", metav1.NamespaceDefault, "test")
	renew := func(at time.Time) {
		t.Helper()
		if err := agent.Renew(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	renew(time.Now())
	scheduler := lab.Scheduler(t, harness.SchedulerOptions{
		Args: []string{"--agent-lease-namespace=" + metav1.NamespaceDefault},
	})
	bound := func(name string) error {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}
		if err := lab.Client.Get(t.Context(), key, &pod); err != nil || pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s has no node: %w: %+v", name, err, pod.Status.Conditions)
		}
		return nil
	}
	lab.Create(t, wants(lab, "first", "7"))
	lab.Eventually(t, func() error { return bound("first") })
	var before int
	var since time.Time
	lab.Eventually(t, func() error { // a bind and a young cluster bring about cycles of their own; renewals would each time
		if now := cycles(t, scheduler); since.IsZero() || now != before {
			before, since = now, time.Now()
			for range 20 {
				renew(time.Now())
			}
		}
		if rest := time.Since(since); rest < 3*time.Second {
			return fmt.Errorf("%d cycles, and the Lease was renewed 20 times %s ago", before, rest)
		}
		return nil
	})
	renew(time.Now().Add(2*time.Second - publish.Expiry))
	out := time.Now().Add(3 * time.Second) // a second after it has run out
	noticed := 0
	lab.Eventually(t, func() error {
		if noticed = cycles(t, scheduler) - before; noticed == 0 || time.Now().Before(out) {
			return fmt.Errorf("%d cycles were run for a Lease that runs out", noticed)
		}
		return nil
	})
	if noticed > 5 { // it is seen after the renewals before it, however late those are seen
		t.Errorf("%d cycles were run for 20 renewals, and one that has run out", noticed)
	}
	lab.Create(t, wants(lab, "second", "1"))
	lab.AfterCycle(t, lab.Pod(metav1.NamespaceDefault, "later", oneCPU))
	if err := bound("second"); err == nil {
		t.Error("a pod was bound where no agent is")
	}
	renew(time.Now())
	lab.Eventually(t, func() error { return bound("second") })
}
