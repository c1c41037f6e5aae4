package e2e

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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
	env.Eventually(t, patience, func() error {
		return errors.Join(a.says(polite, "preemptionPolicy is Never"), a.says(equal, "no lower-priority victims"))
	})
	env.Consistently(t, 2*time.Second, func() error { return a.left("cheap", 1) })
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
