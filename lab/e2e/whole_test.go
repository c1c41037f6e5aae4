package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestAGangThatWasWholeGetsItsReplacement after two members have finished and were deleted and a third has failed, from a
// scheduler that knows nothing but the objects.
func TestAGangThatWasWholeGetsItsReplacement(t *testing.T) {
	env.Nodes(t, cluster.Nodes("whole", 1, map[string]string{"cpu": "4"})...)
	ns := env.Namespace(t)
	first := env.Scheduler(t, harness.SchedulerOptions{})
	gang := group(ns, "mpi", 4)
	after := func(annotation string) harness.PodOption {
		return harness.PodAnnotations(map[string]string{annotation: "3s"})
	}
	finish, fails := members(ns, "mpi", "finishes-", 2, after(cluster.RunFor)), members(ns, "mpi", "fails-", 1, after(cluster.FailAfter))
	env.Create(t, gang)
	env.Create(t, append(append(members(ns, "mpi", "stays-", 1), finish...), fails...)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi", 4) })
	for _, member := range finish {
		env.Eventually(t, func() error { return inPhase(t, member.(*corev1.Pod), corev1.PodSucceeded) })
		if err := env.Client.Delete(t.Context(), member); err != nil {
			t.Fatal(err)
		}
	}
	env.Eventually(t, func() error { return inPhase(t, fails[0].(*corev1.Pod), corev1.PodFailed) })
	first.Kill()
	env.Scheduler(t, harness.SchedulerOptions{})
	env.Create(t, members(ns, "mpi", "replaces-", 1)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi-replaces", 1) })
}
