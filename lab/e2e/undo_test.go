package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// refuseBinds has the server refuse to bind the pods of a namespace whose names end so, until allow is called or the test ends.
func refuseBinds(t *testing.T, namespace, suffix string) (allow func()) {
	t.Helper()
	return refuse(t, namespace, fmt.Sprintf("request.name.endsWith(%q)", suffix), "probe"+suffix, "nowhere")
}

// refuse has the server refuse binds in a namespace by a CEL expression, until allow is called or the test ends. The bind of
// a pod of the given name to a node of the given name must be one of them.
func refuse(t *testing.T, namespace, expression, pod, node string) (allow func()) {
	t.Helper()
	name := "refuse-" + namespace
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"}},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{Name: "namespace", Expression: fmt.Sprintf("request.namespace == %q", namespace)}},
			Validations:     []admissionv1.Validation{{Expression: "!(" + expression + ")", Message: "this one is not to be bound"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	allow = func() {
		for _, object := range []client.Object{binding, policy} {
			if err := env.Client.Delete(context.Background(), object); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
	t.Cleanup(allow)
	env.Create(t, policy, binding, env.Pod(namespace, pod, harness.ScheduledBy("absent")))
	env.Eventually(t, func() error { // until the server knows of the policy
		err := env.Clientset.CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "not to be bound") {
			return fmt.Errorf("a bind that is to be refused: %v", err)
		}
		return nil
	})
	return allow
}

// uids are the pods of a namespace that have a node, by name.
func uids(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]types.UID{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			bound[pod.Name] = pod.UID
		}
	}
	return bound
}

// TestStartThatCannotBeCompletedIsUndone: the server refuses to bind one member indefinitely; within the deadline nothing is
// bound any more, and it is said why.
func TestStartThatCannotBeCompletedIsUndone(t *testing.T) {
	env.Nodes(t, cluster.Nodes("undone", 2, map[string]string{"cpu": "3"})...)
	ns := env.Namespace(t)
	refuseBinds(t, ns, "-1")
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--bind-deadline=4s"}})
	gang := group(ns, "mpi", 3)
	env.Create(t, gang)
	env.Create(t, members(ns, "mpi", "", 3)...)
	undone := func() error {
		pods, err := env.Pods(t.Context(), ns, client.MatchingLabels{v1alpha1.LabelPodGroup: "mpi"})
		if err != nil || len(pods) != 1 || pods[0].Name != "mpi-1" || pods[0].Spec.NodeName != "" {
			return fmt.Errorf("%d pods are left, want the one that cannot be bound; %v", len(pods), err)
		}
		return nil
	}
	env.Eventually(t, func() error { // a slow machine may show the end alone
		if undone() == nil {
			return nil
		}
		return boundOf(t, ns, "mpi", 2)
	})
	began := time.Now()
	env.Eventually(t, undone)
	takings{time.Since(began)}.check(t, "to undo a start with a deadline of 4 s", 8*time.Second)
	env.Eventually(t, func() error {
		if err := waits(t, gang, "BindFailed"); err != nil {
			return err
		}
		message := meta.FindStatusCondition(gang.Status.Conditions, v1alpha1.ConditionScheduled).Message
		for _, part := range []string{"the start was undone", "mpi-1", "this one is not to be bound"} {
			if !strings.Contains(message, part) {
				return fmt.Errorf("the reason is %q, want %q in it", message, part)
			}
		}
		return nil
	})
	env.Eventually(t, func() error { return hasEvent(t, ns, "PodGroup", "mpi", "StartUndone") })
}

// TestSchedulerKilledInTheMiddleOfAGang: the next one completes what it finds, with the members that are bound.
func TestSchedulerKilledInTheMiddleOfAGang(t *testing.T) {
	env.Nodes(t, cluster.Nodes("killed", 2, map[string]string{"cpu": "3"})...)
	ns := env.Namespace(t)
	allow := refuseBinds(t, ns, "-1")
	first := env.Scheduler(t, harness.SchedulerOptions{Name: "killed-first", Args: []string{"--bind-deadline=" + longDeadline}})
	gang := group(ns, "mpi", 3)
	env.Create(t, gang)
	env.Create(t, members(ns, "mpi", "", 3)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi", 2) })
	before := uids(t, ns)
	first.Kill()
	allow()
	second := env.Scheduler(t, harness.SchedulerOptions{Name: "killed-second", Args: []string{"--bind-deadline=" + longDeadline}})
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
	after := uids(t, ns)
	for name, uid := range before {
		if after[name] != uid {
			t.Errorf("pod %s is another one than before", name)
		}
	}
	if err := boundOf(t, ns, "mpi", 3); err != nil {
		t.Error(err)
	}
	second.Kill()
}

// TestNextLeaderWaitsForTheLastOnesRequests: after a crash the Lease runs out, and what its holder may have sent has its
// time; after a regular end no scheduler waits.
func TestNextLeaderWaitsForTheLastOnesRequests(t *testing.T) {
	env.Nodes(t, cluster.Nodes("led", 1, map[string]string{"cpu": "9"})...)
	ns := env.Namespace(t)
	elected := []string{"--leader-elect=true", "--leader-elect-namespace=" + ns}
	first := env.Scheduler(t, harness.SchedulerOptions{Name: "led-first", Args: elected})
	start := func(name string) time.Duration {
		env.Create(t, group(ns, name, 3))
		env.Create(t, members(ns, name, "", 3)...)
		began := time.Now()
		env.Eventually(t, func() error { return boundOf(t, ns, name, 3) })
		return time.Since(began)
	}
	start("one")
	second := env.Scheduler(t, harness.SchedulerOptions{Name: "led-second", Args: elected})
	first.Kill()
	died := time.Now()
	lease, err := heldLease(t, env, ns) // with the last renewal in it
	if err != nil {
		t.Fatal(err)
	}
	start("two")
	takings{time.Since(died)}.check(t, "a start after a crash, with the 15 s of the Lease, the 3 s of the margin, and little else", 25*time.Second)
	assertBoundFrom(t, ns, "two", lease.Spec.RenewTime.Add(leaseHolds+margin))
	env.Scheduler(t, harness.SchedulerOptions{Name: "led-third", Args: elected})
	lease, err = heldLease(t, env, ns)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-second.Done()
	if left, err := heldLease(t, env, ns); err == nil && *left.Spec.HolderIdentity == *lease.Spec.HolderIdentity {
		t.Errorf("%s has ended and holds the Lease", *left.Spec.HolderIdentity)
	}
	takings{start("three")}.check(t, "a start after a regular end", 10*time.Second)
}

// assertBoundFrom wants the members of a group to have been bound from then on, by the server's clock.
func assertBoundFrom(t *testing.T, namespace, group string, from time.Time) {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace, client.MatchingLabels{v1alpha1.LabelPodGroup: group})
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for i := range pods {
		for _, condition := range pods[i].Status.Conditions {
			if condition.Type != corev1.PodScheduled || condition.Status != corev1.ConditionTrue {
				continue
			}
			bound++
			// The server cuts the time to seconds.
			if at := condition.LastTransitionTime.Time; at.Before(from.Add(-time.Second)) {
				t.Errorf("pod %s was bound at %s, want it from %s on", pods[i].Name, at.Format(time.TimeOnly), from.Format(time.StampMilli))
			}
		}
	}
	if bound != len(pods) || bound == 0 {
		t.Errorf("%d of %d pods of %s say when they were bound", bound, len(pods), group)
	}
}
