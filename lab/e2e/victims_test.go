package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// TestIdleRoomComesBeforeVictims: a plan takes what is idle, and only what is missing from others.
func TestIdleRoomComesBeforeVictims(t *testing.T) {
	a := newArena(t, "idle", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("one", a.low, 1, 1)
	a.gang("two", a.low, 1, 1)
	a.bound("one", 1)
	a.bound("two", 1)
	a.gang("dear", a.high, 2, 2)
	a.bound("dear", 2)
	if errors.Join(a.left("one", 1), a.left("two", 0)) != nil && errors.Join(a.left("one", 0), a.left("two", 1)) != nil {
		t.Errorf("%v; %v: one of them was enough", a.left("one", 1), a.left("two", 1))
	}
}

// TestTheLowestGoFirst, and who is in between stays.
func TestTheLowestGoFirst(t *testing.T) {
	a := newArena(t, "lowest", 2)
	middle := a.class("lowest-middle", 100, nil)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("middle", middle, 1, 1)
	a.bound("middle", 1)
	a.gang("cheap", a.low, 1, 1)
	a.bound("cheap", 1)
	a.gang("dear", a.high, 1, 1)
	a.bound("dear", 1)
	if err := errors.Join(a.left("middle", 1), a.left("cheap", 0)); err != nil {
		t.Error(err)
	}
}

// TestWhoMayNotEvict: a class that says Never, and an equal.
func TestWhoMayNotEvict(t *testing.T) {
	a := newArena(t, "never", 1)
	never := corev1.PreemptNever
	meek := a.class("never-meek", 900, &never)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 1, 1)
	a.bound("cheap", 1)
	polite, equal := a.gang("polite", meek, 1, 1), a.gang("equal", a.low, 1, 1)
	env.Eventually(t, func() error {
		return errors.Join(a.says(polite, "preemptionPolicy is Never"), a.says(equal, "no lower-priority victims"))
	})
	a.witness().quiet()
	if err := a.left("cheap", 1); err != nil {
		t.Error(err)
	}
}

// TestRolesKeepTheirMinimum: of a gang with one member too many it is a worker who goes, since the launcher is the only one.
func TestRolesKeepTheirMinimum(t *testing.T) {
	a := newArena(t, "roles", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	env.Create(t, group(a.ns, "mpi", 2, v1alpha1.Role{Name: "launcher", MinMember: 1}, v1alpha1.Role{Name: "worker", MinMember: 1}))
	whole := func(p *corev1.Pod) { p.Spec.PriorityClassName = a.low }
	room := harness.Requests(map[string]string{"cpu": "4"})
	env.Create(t, members(a.ns, "mpi", "worker-", 2, room, whole, role("worker"))...)
	env.Create(t, members(a.ns, "mpi", "launcher-", 1, room, whole, role("launcher"))...)
	a.bound("mpi", 3)
	a.gang("dear", a.high, 1, 1)
	a.bound("dear", 1)
	if err := errors.Join(a.left("mpi-launcher", 1), a.left("mpi-worker", 1)); err != nil {
		t.Error(err)
	}
}

// TestAGangThatRequestsNothingNeedsPlacesAllTheSame: a node takes only so many pods.
func TestAGangThatRequestsNothingNeedsPlacesAllTheSame(t *testing.T) {
	a := newArena(t, "places", 0)
	env.Nodes(t, cluster.Nodes("places", 2, map[string]string{"cpu": "4", "pods": "1"})...)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 2, 2)
	a.bound("cheap", 2)
	a.gang("light", a.high, 2, 2, func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	a.bound("light", 2)
	if err := a.left("cheap", 0); err != nil {
		t.Error(err)
	}
}

// TestAGangThatRequestsNothingStartsOnFullNodes: and no pod is evicted for it.
func TestAGangThatRequestsNothingStartsOnFullNodes(t *testing.T) {
	a := newArena(t, "full", 2)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	a.gang("cheap", a.low, 2, 2)
	a.bound("cheap", 2)
	a.gang("light", a.low, 3, 3, cpu("0"))
	a.bound("light", 3)
	w.evictions(0)
}

// TestTheMoreImportantStay: of sixteen pods that could be evicted, as few are as needed, and none before one of lower priority.
func TestTheMoreImportantStay(t *testing.T) {
	for _, c := range []struct {
		name         string
		nodes        int
		each, member string // CPUs; a node has four
		members      int32
		left         [4]int // of four, by priority, the lowest first
	}{
		{"on-a-node", 1, "250m", "1500m", 1, [4]int{0, 2, 4, 4}},
		{"on-many", 16, "4", "4", 6, [4]int{0, 2, 4, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, c.name, c.nodes)
			env.Scheduler(t, harness.SchedulerOptions{})
			w := a.witness()
			for level := range c.left {
				name := fmt.Sprintf("level-%d", level)
				a.gang(name, a.class(c.name+"-"+name, int32(100+level), nil), 1, 4, cpu(c.each))
				a.bound(name, 4)
			}
			a.gang("dear", a.high, c.members, int(c.members), cpu(c.member))
			a.bound("dear", int(c.members))
			w.evictions(6)
			for level, left := range c.left {
				if err := a.left(fmt.Sprintf("level-%d", level), left); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestWhoIsNotNeededAfterAllStays: the single pod would go first, being the lowest, but does not free enough capacity; where a
// gang has to go in any case, its two nodes are enough without the pod's.
func TestWhoIsNotNeededAfterAllStays(t *testing.T) {
	a := newArena(t, "after-all", 3)
	middle := a.class("after-all-middle", 100, nil)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	a.gang("single", a.low, 1, 1)
	a.bound("single", 1)
	a.gang("whole", middle, 16, 16, cpu("500m"))
	a.bound("whole", 16)
	a.gang("dear", a.high, 2, 2)
	a.bound("dear", 2)
	w.evictions(16)
	if err := errors.Join(a.left("single", 1), a.left("whole", 0)); err != nil {
		t.Error(err)
	}
}

// TestOneGangEndsNotTwo, although the two have fewer pods together and started later.
func TestOneGangEndsNotTwo(t *testing.T) {
	a := newArena(t, "gangs", 0)
	room := map[string]string{"cpu": "4"}
	env.Nodes(t, cluster.Nodes("gangs-wide", 2, room, cluster.NodeLabels(map[string]string{"for": "wide"}))...)
	env.Nodes(t, cluster.Nodes("gangs-small", 2, room)...)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	a.gang("wide", a.low, 8, 8, cpu("1"), selects("for", "wide"))
	a.bound("wide", 8)
	for i := range 2 {
		name, node := fmt.Sprintf("small-%d", i), fmt.Sprintf("gangs-small-%d", i)
		a.gang(name, a.low, 2, 2, cpu("2"), selects(corev1.LabelHostname, node))
		a.bound(name, 2)
	}
	a.gang("dear", a.high, 2, 2)
	a.bound("dear", 2)
	w.evictions(8)
	if err := errors.Join(a.left("wide", 0), a.left("small", 4)); err != nil {
		t.Error(err)
	}
	env.Eventually(t, func() error { return hasEvent(t, a.ns, "PodGroup", "wide", "Preempted") })
}

// TestPodsOfTheSystemStay, those of kube-system and those of the classes for critical pods, even where the job that looks for
// capacity is more critical than they are.
func TestPodsOfTheSystemStay(t *testing.T) {
	a := newArena(t, "critical", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	whole := harness.Requests(map[string]string{"cpu": "4"})
	dns := env.Pod(metav1.NamespaceSystem, a.ns+"-dns", whole, func(p *corev1.Pod) { p.Spec.PriorityClassName = a.low })
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), dns) })
	env.Create(t, dns)
	env.Eventually(t, func() error { return inPhase(t, dns, corev1.PodRunning) })
	a.gang("needed", "system-cluster-critical", 1, 1)
	a.bound("needed", 1)
	a.gang("cheap", a.low, 1, 1)
	a.bound("cheap", 1)

	a.gang("dear", "system-node-critical", 1, 1)
	a.bound("dear", 1)
	second := a.gang("second", "system-node-critical", 1, 1)
	env.Eventually(t, func() error { return a.says(second, "no lower-priority victims") })
	w.evictions(1)
	if err := errors.Join(a.left("cheap", 0), a.left("needed", 1), inPhase(t, dns, corev1.PodRunning)); err != nil {
		t.Error(err)
	}
}

// TestAGangWithRolesMakesRoomForAllOfThem, and for no member beyond its minimum.
func TestAGangWithRolesMakesRoomForAllOfThem(t *testing.T) {
	a := newArena(t, "mpi", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	for i := range 3 {
		a.gang(fmt.Sprintf("cheap-%d", i), a.low, 1, 1)
	}
	a.bound("cheap", 3)
	env.Create(t, group(a.ns, "mpi", 3, v1alpha1.Role{Name: "launcher", MinMember: 1}, v1alpha1.Role{Name: "worker", MinMember: 2}))
	dear := func(p *corev1.Pod) { p.Spec.PriorityClassName = a.high }
	env.Create(t, members(a.ns, "mpi", "worker-", 4, cpu("3"), dear, role("worker"))...)
	env.Create(t, members(a.ns, "mpi", "launcher-", 1, cpu("1"), dear, role("launcher"))...)
	a.bound("mpi-launcher", 1)
	w.evictions(2)
	if err := errors.Join(boundOf(t, a.ns, "mpi-worker", 2), a.left("cheap", 1)); err != nil {
		t.Error(err)
	}
}
