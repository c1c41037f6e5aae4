package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// The tests of this file are about the time between an eviction and the capacity that it frees.

// hasGrace gives a pod ten minutes to stop, which it would take until the test lets it go.
func hasGrace(p *corev1.Pod) {
	goesSlowly(p)
	*p.Spec.TerminationGracePeriodSeconds = 600
}

// all is nil when so many pods of the namespace whose names begin so are there, those included that are going.
func (a *arena) all(prefix string, want int) error {
	pods, err := env.Pods(a.t.Context(), a.ns)
	if err != nil {
		return err
	}
	there := 0
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, prefix) {
			there++
		}
	}
	if there != want {
		return fmt.Errorf("%d pods %s* are there, want %d", there, prefix, want)
	}
	return nil
}

// where returns the nodes of a pod: the one it is bound to, and the one nominated to it.
func (a *arena) where(name string) (node, nominated string) {
	a.t.Helper()
	var pod corev1.Pod
	if err := env.Client.Get(a.t.Context(), client.ObjectKey{Namespace: a.ns, Name: name}, &pod); err != nil {
		a.t.Fatal(err)
	}
	return pod.Spec.NodeName, pod.Status.NominatedNodeName
}

// TestSlowVictimsAreEvictedOnce: however often the scheduler looks while they terminate, no other pod is evicted, and their
// capacity is for the job for which they were evicted.
func TestSlowVictimsAreEvictedOnce(t *testing.T) {
	a := newArena(t, "slow", 4)
	middle := a.class("slow-middle", 100, nil)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	a.gang("cheap", a.low, 2, 2, hasGrace)
	a.bound("cheap", 2)
	a.gang("other", middle, 1, 2) // who would do as well
	a.bound("other", 2)
	theirs := map[string]bool{}
	for i := range 2 {
		node, _ := a.where(fmt.Sprintf("cheap-%d", i))
		theirs[node] = true
	}
	dear := a.gang("dear", a.high, 2, 2)
	w.evictions(2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	for i := range 2 {
		name := fmt.Sprintf("dear-%d", i)
		if node, nominated := a.where(name); node != "" || !theirs[nominated] {
			t.Errorf("%s is bound to %q and nominated to %q, want one of %v", name, node, nominated, theirs)
		}
		w.evictions(2) // with every look
	}
	a.letGo("cheap")
	a.bound("dear", 2)
	for i := range 2 {
		if node, _ := a.where(fmt.Sprintf("dear-%d", i)); !theirs[node] {
			t.Errorf("dear-%d is on %s, want one of %v", i, node, theirs)
		}
	}
	w.evictions(2)
	if err := a.left("other", 2); err != nil {
		t.Error(err)
	}
	env.Eventually(t, func() error {
		return errors.Join(hasEvent(t, a.ns, "PodGroup", "dear", "Preempting"), hasEvent(t, a.ns, "PodGroup", "cheap", "Preempted"),
			hasEvent(t, a.ns, "Pod", "cheap-0", "Preempted"))
	})
}

// TestALateEqualDoesNotTakePaidRoom, not even while part of it is free already and the gang that has paid still waits for the
// rest.
func TestALateEqualDoesNotTakePaidRoom(t *testing.T) {
	a := newArena(t, "late", 2)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	for i := range 2 {
		a.gang(fmt.Sprintf("cheap-%d", i), a.low, 1, 1, hasGrace)
	}
	a.bound("cheap", 2)
	dear := a.gang("dear", a.high, 2, 2)
	w.evictions(2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	late := a.gang("late", a.high, 1, 1)
	a.letGo("cheap-0")
	env.Eventually(t, func() error { return a.all("cheap", 1) })
	env.Eventually(t, func() error { return waits(t, late, "InsufficientResources") })
	w.quiet()
	err := errors.Join(boundOf(t, a.ns, "late", 0), boundOf(t, a.ns, "dear", 0), waits(t, dear, "WaitingForVictims"))
	if err != nil {
		t.Error(err)
	}
	a.letGo("cheap-1")
	a.bound("dear", 2)
	w.evictions(2)
	if err := boundOf(t, a.ns, "late", 0); err != nil {
		t.Error(err)
	}
}

// TestVictimsThatAreCreatedAgainWaitBehind: the pods that a Deployment and a StatefulSet make in place of their victims cause
// no eviction, and are not evicted again. They start when the pods for which the victims were evicted are done.
func TestVictimsThatAreCreatedAgainWaitBehind(t *testing.T) {
	a := newArena(t, "again", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	w := a.witness()
	env.Create(t, a.deployment("web", 1), group(a.ns, "ring", 2), a.ring("ring", 2))
	a.bound("web", 1)
	a.bound("ring", 2)
	a.gang("dear", a.high, 3, 3)
	a.bound("dear", 3)
	env.Eventually(t, func() error { return errors.Join(a.left("web", 1), a.left("ring", 2)) })
	w.evictions(3)
	if err := errors.Join(boundOf(t, a.ns, "dear", 3), boundOf(t, a.ns, "web", 0), boundOf(t, a.ns, "ring", 0)); err != nil {
		t.Error(err)
	}
	gone := []client.DeleteAllOfOption{client.InNamespace(a.ns), client.MatchingLabels{v1alpha1.LabelPodGroup: "dear"}}
	if err := env.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, gone...); err != nil {
		t.Fatal(err)
	}
	a.bound("web", 1)
	a.bound("ring", 2)
	w.evictions(3)
}

// template is what a controller makes pods of: of low priority, as large as a node, and a moment later gone than deleted.
func (a *arena) template(labels map[string]string) corev1.PodTemplateSpec {
	moment := harness.PodAnnotations(map[string]string{cluster.StopAfter: "1s"})
	pod := env.Pod("", "", harness.PodLabels(labels), cpu("4"), hasGrace, moment)
	pod.Spec.PriorityClassName = a.low
	return corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}
}

func (a *arena) deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: a.template(labels),
		},
	}
}

// ring is a gang of pods that keep their names: one that is created again has that of the victim, as soon as that is gone.
func (a *arena) ring(name string, size int32) *appsv1.StatefulSet {
	labels := map[string]string{v1alpha1.LabelPodGroup: name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &size, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: a.template(labels),
		},
	}
}
