package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// arena is a namespace with nodes of four CPUs, of which a member of a gang takes all, and two priorities.
type arena struct {
	t         *testing.T
	ns        string
	low, high string
}

func newArena(t *testing.T, name string, nodes int) *arena {
	a := &arena{t: t, ns: env.Namespace(t)}
	env.Nodes(t, cluster.Nodes(name, nodes, map[string]string{"cpu": "4"})...)
	a.low, a.high = a.class(name+"-low", 10, nil), a.class(name+"-high", 1000, nil)
	return a
}

// class makes a PriorityClass for the time of the test, and returns its name.
func (a *arena) class(name string, value int32, policy *corev1.PreemptionPolicy) string {
	a.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: policy}
	env.Create(a.t, class)
	a.t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(a.t.Context()), class) })
	return name
}

// gang makes a gang that fills a node with each of its members.
func (a *arena) gang(name, class string, minMember int32, count int, options ...harness.PodOption) *v1alpha1.PodGroup {
	a.t.Helper()
	all := append([]harness.PodOption{cpu("4"), ofClass(class)}, options...)
	gang, pods := group(a.ns, name, minMember), members(a.ns, name, "", count, all...)
	if len(pods) > 0 {
		gang.Spec.SchedulerName = pods[0].(*corev1.Pod).Spec.SchedulerName
	}
	env.Create(a.t, gang)
	env.Create(a.t, pods...)
	return gang
}

// ofClass gives a pod a PriorityClass.
func ofClass(name string) harness.PodOption {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = name }
}

func (a *arena) bound(prefix string, want int) {
	a.t.Helper()
	env.Eventually(a.t, func() error { return boundOf(a.t, a.ns, prefix, want) })
}

// left is nil when so many pods of the namespace whose names begin so are there and not going.
func (a *arena) left(prefix string, want int) error {
	pods, err := env.Pods(a.t.Context(), a.ns)
	if err != nil {
		return err
	}
	left := 0
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, prefix) && pod.DeletionTimestamp == nil {
			left++
		}
	}
	if left != want {
		return fmt.Errorf("%d pods %s* are left, want %d", left, prefix, want)
	}
	return nil
}

// says is nil when the group waits and its message has the words.
func (a *arena) says(gang *v1alpha1.PodGroup, words string) error {
	if err := env.Client.Get(a.t.Context(), client.ObjectKeyFromObject(gang), gang); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionScheduled)
	if condition == nil || condition.Status != metav1.ConditionFalse || !strings.Contains(condition.Message, words) {
		return fmt.Errorf("condition %+v, want False with %q", condition, words)
	}
	return nil
}

// letGo lets the containers of the pods whose names begin so stop, if they take their time.
func (a *arena) letGo(prefix string) {
	a.t.Helper()
	pods, err := env.Pods(a.t.Context(), a.ns)
	if err != nil {
		a.t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+cluster.StopAfter+`":null}}}`))
	for i := range pods {
		if !strings.HasPrefix(pods[i].Name, prefix) || pods[i].Annotations[cluster.StopAfter] == "" {
			continue
		}
		if err := client.IgnoreNotFound(env.Client.Patch(a.t.Context(), &pods[i], patch)); err != nil {
			a.t.Fatal(err)
		}
	}
}

// goesSlowly makes a pod take its time when it is deleted, until the test lets it go. A grace period of nothing would let the
// API server delete it immediately.
func goesSlowly(p *corev1.Pod) {
	second := int64(1)
	p.Spec.TerminationGracePeriodSeconds = &second
	p.Annotations[cluster.StopAfter] = "1h"
}

// TestVictimsAreSurplusFirstAndThenWholeGangs: no pod is evicted that need not be, and no gang keeps a part of its members.
func TestVictimsAreSurplusFirstAndThenWholeGangs(t *testing.T) {
	a := newArena(t, "victims", 3)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 2, 3)
	a.bound("cheap", 3)
	one := a.gang("one", a.high, 1, 1)
	a.bound("one", 1)
	if err := a.left("cheap", 2); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return hasEvent(t, a.ns, "PodGroup", "one", "Preempting") })
	env.Eventually(t, func() error { return inGroupPhase(t, one, v1alpha1.PodGroupRunning) })
	a.gang("two", a.high, 2, 2)
	a.bound("two", 2)
	if err := a.left("cheap", 0); err != nil {
		t.Fatal(err)
	}
}

// TestNoPodIsEvictedWithoutAStart: where even all victims together would not be enough, none goes.
func TestNoPodIsEvictedWithoutAStart(t *testing.T) {
	a := newArena(t, "vain", 2)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 1, 2)
	a.bound("cheap", 2)
	big := a.gang("big", a.high, 3, 3)
	env.Eventually(t, func() error { return a.says(big, "needs 3") })
	a.witness().quiet()
	if err := a.left("cheap", 2); err != nil {
		t.Error(err)
	}
}

// keepAll makes a budget that keeps all pods of a group, which run, and waits until it does.
func (a *arena) keepAll(group string, pods int32) *policyv1.PodDisruptionBudget {
	a.t.Helper()
	all := intstr.FromInt32(pods)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.ns, Name: "keep-all"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &all,
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPodGroup: group}},
		},
	}
	env.Create(a.t, budget)
	env.Eventually(a.t, func() error { // of pods that do not run yet, a budget protects none
		if err := env.Client.Get(a.t.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if now := budget.Status; now.ObservedGeneration != budget.Generation || now.CurrentHealthy != pods {
			return fmt.Errorf("the budget's status is %+v, want %d healthy", now, pods)
		}
		return nil
	})
	return budget
}

// TestABudgetProtects: a plan that a PodDisruptionBudget does not allow is no plan, and the gang says which one it was; when
// the budget goes, the plan is made.
func TestABudgetProtects(t *testing.T) {
	a := newArena(t, "budget", 2)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 2, 2)
	a.bound("cheap", 2)
	budget := a.keepAll("cheap", 2)
	dear := a.gang("dear", a.high, 1, 1)
	env.Eventually(t, func() error { return a.says(dear, "keep-all") })
	a.witness().quiet()
	if err := a.left("cheap", 2); err != nil {
		t.Error(err)
	}
	if err := env.Client.Delete(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	a.bound("dear", 1)
}

// TestRoomStaysWithWhoPaid: while victims terminate, no other pod is evicted and no other job gets their capacity, also when
// the scheduler is killed meanwhile.
func TestRoomStaysWithWhoPaid(t *testing.T) {
	a := newArena(t, "paid", 3)
	first := env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 2, 2, hasGrace) // longer than the scheduler may take to come back
	a.bound("cheap", 2)
	a.gang("other", a.low, 1, 1)
	a.bound("other", 1)
	dear := a.gang("dear", a.high, 2, 2)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	env.Eventually(t, func() error { return a.left("cheap", 0) }) // the reason may be there before they are evicted
	if err := a.left("other", 1); err != nil {
		t.Fatal(err)
	}
	a.gang("later", a.low, 1, 1)
	first.Kill()
	env.Scheduler(t, harness.SchedulerOptions{Name: "second"})
	a.witness().quiet()
	if err := errors.Join(boundOf(t, a.ns, "dear", 0), boundOf(t, a.ns, "later", 0), a.left("other", 1)); err != nil {
		t.Error(err)
	}
	a.letGo("cheap")
	a.bound("dear", 2)
	if err := errors.Join(boundOf(t, a.ns, "later", 0), a.left("other", 1)); err != nil {
		t.Error(err)
	}
}

// TestStuckVictimsAreNotWaitedForForEver: half a minute after its grace a victim's capacity is no longer counted on; the gang
// says who is stuck, and starts when there is capacity at last.
func TestStuckVictimsAreNotWaitedForForEver(t *testing.T) {
	a := newArena(t, "stuck", 1)
	env.Scheduler(t, harness.SchedulerOptions{})
	a.gang("cheap", a.low, 1, 1, goesSlowly)
	a.bound("cheap", 1)
	dear := a.gang("dear", a.high, 1, 1)
	env.Eventually(t, func() error { return waits(t, dear, "WaitingForVictims") })
	env.Eventually(t, func() error { return a.says(dear, "cheap-0") })
	env.Eventually(t, func() error { return waits(t, dear, "InsufficientResources") })
	a.letGo("cheap")
	a.bound("dear", 1)
}
