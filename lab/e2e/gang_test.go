package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

var oneCPU = harness.Requests(map[string]string{"cpu": "1"})

func group(namespace, name string, minMember int32, roles ...v1alpha1.Role) *v1alpha1.PodGroup {
	return &v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.PodGroupSpec{MinMember: minMember, Roles: roles, SchedulerName: harness.SchedulerName},
	}
}

// members makes that many pods of a group, with one CPU each unless an option says otherwise.
func members(namespace, group, suffix string, n int, options ...harness.PodOption) []client.Object {
	objects := make([]client.Object, n)
	for i := range objects {
		all := append([]harness.PodOption{oneCPU, harness.InGroup(group)}, options...)
		objects[i] = env.Pod(namespace, fmt.Sprintf("%s-%s%d", group, suffix, i), all...)
	}
	return objects
}

func role(name string) harness.PodOption {
	return harness.PodLabels(map[string]string{v1alpha1.LabelRole: name})
}

// boundOf is nil when exactly that many pods of the namespace whose names begin so have a node.
func boundOf(t *testing.T, namespace, prefix string, want int) error {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	bound, why := 0, ""
	for _, pod := range pods {
		switch {
		case !strings.HasPrefix(pod.Name, prefix):
		case pod.Spec.NodeName != "":
			bound++
		default:
			for _, condition := range pod.Status.Conditions {
				why += fmt.Sprintf("; %s: %s %s", pod.Name, condition.Type, condition.Message)
			}
		}
	}
	if bound != want {
		return fmt.Errorf("%d pods %s* are bound, want %d%s", bound, prefix, want, why)
	}
	return nil
}

// waits is nil when the group's condition Scheduled is False for that reason.
func waits(t *testing.T, group *v1alpha1.PodGroup, reason string) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
		return err
	}
	condition := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
	if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != reason {
		return fmt.Errorf("condition %+v, want False for %s", condition, reason)
	}
	return nil
}

func inGroupPhase(t *testing.T, group *v1alpha1.PodGroup, phase v1alpha1.PodGroupPhase) error {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
		return err
	}
	if group.Status.Phase != phase {
		return fmt.Errorf("status %+v, want phase %s", group.Status, phase)
	}
	return nil
}

// podWaits is nil when the pod's condition PodScheduled is False for that reason.
func podWaits(t *testing.T, pod client.Object, reason string) error {
	t.Helper()
	var now corev1.Pod
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
		return err
	}
	for _, condition := range now.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("conditions of pod %s: %+v, want PodScheduled=False for %s", now.Name, now.Status.Conditions, reason)
}

func TestGangOfThreeStartsTogether(t *testing.T) {
	env.Nodes(t, cluster.Nodes("three", 1, map[string]string{"cpu": "3"})...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{})
	gang := group(ns, "mpi", 3)
	env.Create(t, gang)
	two := members(ns, "mpi", "", 3)
	env.Create(t, two[:2]...)
	env.Eventually(t, func() error { return waits(t, gang, "NotEnoughMembers") })
	if err := boundOf(t, ns, "mpi", 0); err != nil {
		t.Fatal(err)
	}
	env.Create(t, two[2])
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi", 3) })
	env.Eventually(t, func() error { return inGroupPhase(t, gang, v1alpha1.PodGroupRunning) })
	if gang.Status.Placed != 3 || gang.Status.Running != 3 || gang.Status.Members != 3 {
		t.Errorf("status %+v, want three of everything", gang.Status)
	}
	env.Eventually(t, func() error { return hasEvent(t, ns, "PodGroup", "mpi", "Scheduled") })
}

func hasEvent(t *testing.T, namespace, kind, name, reason string) error {
	t.Helper()
	events, err := env.Clientset.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, event := range events.Items {
		if event.Regarding.Kind == kind && event.Regarding.Name == name && event.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no event %s about %s %s among %d", reason, kind, name, len(events.Items))
}

func TestRolesHaveMinimaOfTheirOwn(t *testing.T) {
	env.Nodes(t, cluster.Nodes("roles", 1, map[string]string{"cpu": "4"})...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{})
	mpi := group(ns, "mpi", 3, v1alpha1.Role{Name: "launcher", MinMember: 1}, v1alpha1.Role{Name: "worker", MinMember: 2})
	env.Create(t, mpi)
	env.Create(t, members(ns, "mpi", "worker-", 4, role("worker"))...)
	env.Eventually(t, func() error { return waits(t, mpi, "NotEnoughMembers") })
	env.Create(t, members(ns, "mpi", "launcher-", 1, role("launcher"))...)
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi-launcher", 1) })
	env.Eventually(t, func() error { return boundOf(t, ns, "mpi-worker", 3) })
}

func TestPodOfAMissingGroupIsHeldUntilItAppears(t *testing.T) {
	env.Nodes(t, cluster.Nodes("missing", 1, map[string]string{"cpu": "4"})...)
	ns, elsewhere := env.Namespace(t), env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{})
	env.Create(t, group(elsewhere, "late", 1))
	pods := members(ns, "late", "", 2)
	env.Create(t, pods...)
	env.Eventually(t, func() error { return podWaits(t, pods[0], "GroupNotFound") })
	if err := boundOf(t, ns, "late", 0); err != nil {
		t.Errorf("a group of that name in another namespace: %v", err)
	}
	env.Create(t, group(ns, "late", 2))
	env.Eventually(t, func() error { return boundOf(t, ns, "late", 2) })
}

func TestGroupDeletedUnderRunningPods(t *testing.T) {
	env.Nodes(t, cluster.Nodes("deleted", 1, map[string]string{"cpu": "4"})...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{})
	gang := group(ns, "orphans", 2)
	env.Create(t, gang)
	env.Create(t, members(ns, "orphans", "", 2)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "orphans", 2) })
	if err := env.Client.Delete(t.Context(), gang); err != nil {
		t.Fatal(err)
	}
	// No watch waits for another: while the scheduler has not heard of the deletion, a member that fits is bound, and rightly.
	probe := members(ns, "orphans", "probe-", 1, harness.Requests(map[string]string{"cpu": "100"}))
	env.Create(t, probe...)
	env.Eventually(t, func() error { return podWaits(t, probe[0], "GroupNotFound") })
	late := members(ns, "orphans", "late-", 1)
	env.Create(t, late...)
	env.Eventually(t, func() error { return podWaits(t, late[0], "GroupNotFound") })
	env.Create(t, env.Pod(ns, "alone", oneCPU))
	env.Eventually(t, func() error { return boundOf(t, ns, "alone", 1) })
}

func TestOneBadJobHurtsNoOtherJob(t *testing.T) {
	nodes := cluster.Nodes("bad", 1, map[string]string{"cpu": "4", "memory": "8Gi"})
	env.Nodes(t, append(nodes, cluster.Nodes("empty", 1, map[string]string{})...)...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{})
	huge := group(ns, "huge", 2)
	env.Create(t, huge)
	env.Create(t, members(ns, "huge", "", 2, harness.Requests(map[string]string{"memory": "9E"}))...)
	good := group(ns, "good", 2)
	env.Create(t, good)
	env.Create(t, members(ns, "good", "", 2)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "good", 2) })
	env.Eventually(t, func() error { return waits(t, huge, "InvalidRequest") })
}

func TestTheServerExplainsWhatIsWrongWithAGroup(t *testing.T) {
	ns := env.Namespace(t)
	worker := v1alpha1.Role{Name: "worker", MinMember: 2}
	sharing := func(name string, constraint v1alpha1.TopologyConstraint) *v1alpha1.PodGroup {
		gang := group(ns, name, 4)
		gang.Spec.Topology = []v1alpha1.TopologyConstraint{constraint}
		return gang
	}
	for _, c := range []struct {
		group *v1alpha1.PodGroup
		says  string
	}{
		{group(ns, "zero", 0), "minMember"},
		{group(ns, "twice", 4, worker, worker), "Duplicate value"},
		{group(ns, "more", 2, worker, v1alpha1.Role{Name: "launcher", MinMember: 1}), "raise minMember"},
		{group(ns, strings.Repeat("x", 64), 1), "at most 63 characters"},
		{sharing("sliced", v1alpha1.TopologyConstraint{Level: "rack", Mode: v1alpha1.TopologyPreferred, SliceSize: 2}), "sliceSize needs mode: Required"},
		{sharing("waiting", v1alpha1.TopologyConstraint{Level: "rack", WaitSeconds: 60}), "waitSeconds needs mode: Preferred"},
	} {
		if err := env.Client.Create(t.Context(), c.group); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("group %s: %v, want a message with %q", c.group.Name, err, c.says)
		}
	}
}

func TestSchedulerNamesAreHonoured(t *testing.T) {
	env.Nodes(t, cluster.Nodes("names", 1, map[string]string{"cpu": "8"})...)
	ns := env.Namespace(t)
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--scheduler-name=one", "--scheduler-name=two"}})
	for _, name := range []string{"one", "two", "tutti"} {
		env.Create(t, env.Pod(ns, "for-"+name, oneCPU, harness.ScheduledBy(name)))
	}
	env.Eventually(t, func() error { return boundOf(t, ns, "for-one", 1) })
	env.Eventually(t, func() error { return boundOf(t, ns, "for-two", 1) })
	if err := boundOf(t, ns, "for-tutti", 0); err != nil {
		t.Error(err)
	}
}

func TestConfigurationFileIsHonoured(t *testing.T) {
	env.Nodes(t, cluster.Nodes("config", 1, map[string]string{"cpu": "2"})...)
	ns := env.Namespace(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	withoutGang := "actions: \"allocate\"\ntiers:\n- plugins:\n  - name: priority\n  - name: predicates\n  - name: nodeorder\n"
	if err := os.WriteFile(file, []byte(withoutGang), 0o600); err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--config=" + file}})
	env.Create(t, group(ns, "loose", 3))
	env.Create(t, members(ns, "loose", "", 3)...)
	env.Eventually(t, func() error { return boundOf(t, ns, "loose", 2) })
}
