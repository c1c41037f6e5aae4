package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The tests of this file are about capacity that is kept for a gang which has waited for two seconds.

// reserving starts a scheduler that makes reservations soon, and evicts no pod.
func reserving(t *testing.T) *harness.Scheduler {
	t.Helper()
	return env.Scheduler(t, harness.SchedulerOptions{Args: []string{reserveSoon(t, "allocate, backfill")}})
}

// reserveSoon returns the argument for a configuration with these actions, in which a gang gets a reservation after two seconds.
func reserveSoon(t *testing.T, actions string) string {
	t.Helper()
	configuration := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: config.tutti.dev/v1alpha1\nkind: SchedulerConfiguration\n" +
		"actions: \"" + actions + "\"\n" +
		"configurations:\n- name: backfill\n  arguments: {reserveAfter: 2s, reserveShare: 100}\n" +
		"tiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: predicates\n  - name: nodeorder\n"
	if err := os.WriteFile(configuration, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--config=" + configuration
}

// endsAfter gives a pod so many seconds to run; kwok lets it run on all the same.
func endsAfter(seconds int64) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds }
}

// queue is an arena whose two nodes are taken, by the pods early-0 and early-1, and a gang that waits for both and has got its
// reservation.
func queue(t *testing.T, name string, early ...harness.PodOption) (a *arena, large *v1alpha1.PodGroup) {
	t.Helper()
	a = newArena(t, name, 2)
	for i := range 2 {
		a.gang(fmt.Sprintf("early-%d", i), a.low, 1, 1, early...)
	}
	a.bound("early", 2)
	large = a.gang("large", a.low, 2, 2)
	env.Eventually(t, func() error { return a.reserved(large, 2) })
	return a, large
}

// reserved is nil when the gang has capacity reserved on so many nodes, on none when it is zero.
func (a *arena) reserved(gang *v1alpha1.PodGroup, nodes int) error {
	var now v1alpha1.PodGroup // in which nothing is left over
	if err := env.Client.Get(a.t.Context(), client.ObjectKeyFromObject(gang), &now); err != nil {
		return err
	}
	now.DeepCopyInto(gang)
	reservation := now.Status.Reservation
	if nodes == 0 && reservation == nil || nodes > 0 && reservation != nil && len(reservation.Nodes) == nodes {
		return nil
	}
	return fmt.Errorf("reservation %+v of %+v, want one on %d nodes", reservation, now.Status.Conditions, nodes)
}

// ends lets the pods of a gang of one end, and takes them away.
func (a *arena) ends(name string) {
	a.t.Helper()
	pod := env.Pod(a.ns, name+"-0")
	if err := env.Client.Delete(a.t.Context(), pod); err != nil {
		a.t.Fatal(err)
	}
}

// TestReservedRoomIsKept: capacity that is idle is not for a job that came later and may run indefinitely, but for the gang,
// which starts as soon as it has all it needs.
func TestReservedRoomIsKept(t *testing.T) {
	reserving(t)
	a, large := queue(t, "reserved")
	if large.Status.Reservation.ExpectedStart != nil {
		t.Errorf("expected start %s, and it is not known", large.Status.Reservation.ExpectedStart)
	}
	for _, node := range large.Status.Reservation.Nodes {
		if cpus := node.Resources[corev1.ResourceCPU]; node.Members != 1 || cpus.Value() != 4 {
			t.Errorf("reserved on %s: %d members, %s CPUs; want 1 and 4", node.Name, node.Members, &cpus)
		}
	}
	w := a.witness()
	a.ends("early-0")
	next := a.gang("next", a.low, 1, 1)
	env.Eventually(t, func() error { return waits(t, next, "Reserved") })
	w.quiet()
	err := errors.Join(boundOf(t, a.ns, "next", 0), a.says(next, a.ns+"/large"), a.says(large, "capacity is reserved on"))
	if err != nil {
		t.Error(err)
	}
	a.ends("early-1")
	a.bound("large", 2)
	env.Eventually(t, func() error { return errors.Join(a.reserved(large, 0), waits(t, next, "InsufficientResources")) })
}

// TestReservedRoomIsLent: reserved capacity is lent to jobs that say that they end before it is needed, be it the group or the
// pod that says so, and to no other job.
func TestReservedRoomIsLent(t *testing.T) {
	reserving(t)
	a, large := queue(t, "lent", endsAfter(600))
	expected := large.Status.Reservation.ExpectedStart
	if expected == nil || expected.Sub(large.CreationTimestamp.Time) < 9*time.Minute {
		t.Fatalf("expected start %s, want one in ten minutes", expected)
	}
	a.ends("early-0")
	long, short := group(a.ns, "long", 1), group(a.ns, "short", 1)
	hour, minute := int64(3600), int64(60)
	long.Spec.ExpectedRunSeconds, short.Spec.ExpectedRunSeconds = &hour, &minute
	env.Create(t, long)
	env.Create(t, members(a.ns, "long", "", 1, cpu("2"))...)
	env.Eventually(t, func() error {
		return errors.Join(waits(t, long, "Reserved"), a.says(long, "this job would run for longer"))
	})
	env.Create(t, short)
	env.Create(t, members(a.ns, "short", "", 1, cpu("2"))...)
	a.gang("brief", a.low, 1, 1, cpu("2"), endsAfter(60))
	a.bound("short", 1)
	a.bound("brief", 1)
	if err := errors.Join(a.reserved(large, 2), boundOf(t, a.ns, "long", 0), boundOf(t, a.ns, "large", 0)); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"short", "brief", "early-1"} {
		a.ends(name)
	}
	a.bound("large", 2)
	if err := boundOf(t, a.ns, "long", 0); err != nil {
		t.Error(err)
	}
}

// TestAReservationOutlivesItsScheduler: what one has reserved the next one finds in the PodGroup, before it looks at those who
// would take it.
func TestAReservationOutlivesItsScheduler(t *testing.T) {
	first := reserving(t)
	a, large := queue(t, "outlives")
	before := large.Status.Reservation
	first.Kill()
	a.ends("early-0")
	next := a.gang("next", a.low, 1, 1)
	reserving(t)
	env.Eventually(t, func() error { return waits(t, next, "Reserved") })
	if err := a.reserved(large, 2); err != nil || !large.Status.Reservation.Since.Equal(&before.Since) {
		t.Errorf("%v; reservation %+v, want that of before: %+v", err, large.Status.Reservation, before)
	}
	a.ends("early-1")
	a.bound("large", 2)
}

// TestAReservationLapsesWithItsGang: what was kept for members that are gone is there for others.
func TestAReservationLapsesWithItsGang(t *testing.T) {
	reserving(t)
	a, large := queue(t, "lapse")
	a.ends("early-0")
	next := a.gang("next", a.low, 1, 1)
	env.Eventually(t, func() error { return waits(t, next, "Reserved") })
	for i := range 2 {
		if err := env.Client.Delete(t.Context(), env.Pod(a.ns, fmt.Sprintf("large-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	a.bound("next", 1)
	env.Eventually(t, func() error { return a.reserved(large, 0) })
}

// TestAReservationLapsesWithItsNode: a gang for which even the empty cluster would be too small has nothing kept.
func TestAReservationLapsesWithItsNode(t *testing.T) {
	reserving(t)
	a, large := queue(t, "lost")
	a.ends("early-0")
	next := a.gang("next", a.low, 1, 1)
	env.Eventually(t, func() error { return waits(t, next, "Reserved") })
	node, _ := a.where("early-1-0")
	if err := env.Clientset.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return a.reserved(large, 0) })
	a.bound("next", 1)
	env.Eventually(t, func() error { return waits(t, large, "InsufficientResources") })
}

// TestALargeGangIsNotStarvedBySmallOnes: under a stream of small jobs, each of which finds capacity as soon as another one ends,
// a gang that needs all of it starts after reserveAfter and the longest of them.
func TestALargeGangIsNotStarvedBySmallOnes(t *testing.T) {
	a := newArena(t, "starved", 2)
	reserving(t)
	small := func(i int, runs string) {
		a.gang(fmt.Sprintf("small-%03d", i), a.low, 1, 1, harness.PodAnnotations(map[string]string{cluster.RunFor: runs}))
	}
	small(0, "3s")
	small(1, "4s") // so that the capacity is never free immediately
	a.bound("small", 2)
	large := a.gang("large", a.low, 2, 2)
	next := 2
	env.Eventually(t, func() error {
		if time.Since(large.CreationTimestamp.Time) > time.Second { // those of the same second may be before the large one
			small(next, "3s") // one more with every look: there is always a pod that would fit
			next++
		}
		return boundOf(t, a.ns, "large", 2)
	})
	if err := inGroupPhase(t, large, v1alpha1.PodGroupRunning); err != nil {
		env.Eventually(t, func() error { return inGroupPhase(t, large, v1alpha1.PodGroupRunning) })
	}
}
