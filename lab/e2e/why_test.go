package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/harness"
)

// readerAccount makes an account that may read the PodGroups and pods of a namespace and nothing else, and returns its
// kubeconfig.
func readerAccount(t *testing.T, namespace string) string {
	t.Helper()
	const name = "reader"
	about := metav1.ObjectMeta{Namespace: namespace, Name: name}
	read := []string{"get", "list"}
	env.Create(t, &corev1.ServiceAccount{ObjectMeta: about},
		&rbacv1.Role{ObjectMeta: about, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: read},
			{APIGroups: []string{"scheduling.tutti.dev"}, Resources: []string{"podgroups"}, Verbs: read},
		}},
		&rbacv1.RoleBinding{ObjectMeta: about, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}})
	kubeconfig, err := env.Cluster.KubeconfigFor(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// saysAll returns what a program printed, as an error unless it has all of this in it.
func saysAll(text string, err error, want ...string) error {
	for _, w := range want {
		if err == nil && !strings.Contains(text, w) {
			err = fmt.Errorf("no %q in\n%s", w, text)
		}
	}
	return err
}

// TestWhySaysTheTrueCause breaks a job in five ways. Each time kubectl tutti why says what is wrong, with numbers, to
// a user who may do no more than read PodGroups and pods.
func TestWhySaysTheTrueCause(t *testing.T) {
	a := newArena(t, "why", 2)
	env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--scheduler-name=tutti-why"}})
	kubeconfig := readerAccount(t, a.ns)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	ours := harness.ScheduledBy("tutti-why")
	why := func(what string, want ...string) {
		t.Helper()
		env.Eventually(t, func() error {
			text, err := harness.RunCommand(t.Context(), program, "why", "--kubeconfig", kubeconfig, "-n", a.ns, what)
			return saysAll(text, err, want...)
		})
	}
	// The gang of the highest priority has all the capacity, so that no other job starts.
	a.gang("boss", a.high, 2, 2, ours)
	a.bound("boss", 2)

	a.gang("blocked", a.low, 2, 2, ours)
	why("blocked", "waits: InsufficientResources", "needs 2, 0 would fit", "cpu", "preemption: ", "priority", "needs 2, has 2: 0 bound, 2 waiting")
	why("pod/blocked-1", "is of PodGroup blocked", "waits: InsufficientResources")

	a.gang("big", a.high, 1, 1, ours, harness.Requests(map[string]string{"cpu": "99"}))
	why("big", "waits: InsufficientResources", "needs 1, 0 would fit", "cpu")

	a.gang("picky", a.high, 1, 1, ours, func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} })
	why("picky", "waits: NodesFiltered", "needs 1, 0 would fit", "node affinity/selector")

	a.gang("short", a.high, 3, 1, ours)
	why("short", "waits: NotEnoughMembers", "needs 3, 1 exist", "needs 3, has 1 (2 missing)")

	train := group(a.ns, "train", 2)
	train.Spec.SchedulerName = "tutti-why"
	env.Create(t, train)
	env.Create(t, members(a.ns, "trian", "", 2, ours)...)
	why("pod/trian-0", "waits: GroupNotFound", `PodGroup "trian" does not exist`, `did you mean PodGroup "train"?`)
	why("train", "waits: NotEnoughMembers", "needs 2, 0 exist", `trian-0, trian-1: of PodGroup "trian", which does not exist`)

	env.Create(t, members(a.ns, "own", "", 2, ours, harness.Requests(map[string]string{"cpu": "99"}),
		harness.PodAnnotations(map[string]string{"scheduling.tutti.dev/min-member": "2"}))...)
	for _, what := range []string{"own", "pod/own-0", "pod/own-1"} {
		why(what, "mplicit group", "waits: Unschedulable", "needs 2, 0 would fit", "cpu", "has 2: 0 bound, 2 waiting")
	}

	_, err = harness.RunCommand(t.Context(), program, "why", "--kubeconfig", kubeconfig, "-n", a.ns, "bosss")
	if err == nil || !strings.Contains(err.Error(), `did you mean PodGroup "boss"?`) {
		t.Errorf("a name that does not exist: %v", err)
	}
	text, err := harness.RunCommand(t.Context(), program, "status", "--kubeconfig", kubeconfig, "-n", a.ns, "--scheduler-name=tutti-why")
	if err := saysAll(text, err, "boss", "Running", "trian", "GroupNotFound", "own"); err != nil {
		t.Error(err)
	}
	text, err = harness.RunCommand(t.Context(), program, "get", "nodes", "--kubeconfig", kubeconfig)
	if err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a reader asks for nodes: %v\n%s", err, text)
	}
}

// TestTheSchedulerShowsItself asks a scheduler for its nodes, cycles, jobs and configuration.
func TestTheSchedulerShowsItself(t *testing.T) {
	a := newArena(t, "show", 2)
	inspectable(t, a.ns)
	scheduler := env.Scheduler(t, harness.SchedulerOptions{Args: []string{"--scheduler-name=tutti-show", "--leader-elect-namespace=" + a.ns}})
	program, err := binaries.Build(t.Context(), t.Output(), binaries.KubectlTutti)
	if err != nil {
		t.Fatal(err)
	}
	a.gang("seen", a.low, 1, 1, harness.ScheduledBy("tutti-show"))
	a.bound("seen", 1)
	ask := func(args ...string) (string, error) {
		return harness.RunCommand(t.Context(), program, append(args, "--kubeconfig", env.Cluster.Kubeconfig(),
			"--scheduler-server", scheduler.URL, "--scheduler-namespace", a.ns)...)
	}
	env.Eventually(t, func() error {
		text, err := ask("get", "nodes", "show-0", "show-1", "-o", "json")
		var nodes debugapi.NodeList
		if err = errors.Join(err, json.Unmarshal([]byte(text), &nodes)); err != nil {
			return err
		}
		var idle int64
		for _, node := range nodes.Items {
			idle += node.Idle.Cpu().Value()
		}
		if idle != 4 || !nodes.Leading {
			return fmt.Errorf("%d of 8 CPUs are idle, want 4: %s", idle, text)
		}
		return nil
	})
	text, err := ask("get", "cycles", "-o", "wide")
	if err := saysAll(text, err, a.ns+"/seen: 1 bound", "allocate"); err != nil {
		t.Error(err)
	}
	a.gang("big", a.low, 1, 1, harness.ScheduledBy("tutti-show"), harness.Requests(map[string]string{"cpu": "99"}))
	env.Eventually(t, func() error {
		text, err := ask("why", "big", "-n", a.ns, "-v")
		return saysAll(text, err, "PodGroup "+a.ns+"/big", "allocate", "preempt", "InsufficientResources", "99 cpu")
	})
	env.Create(t, members(a.ns, "own", "", 2, harness.ScheduledBy("tutti-show"), harness.Requests(map[string]string{"cpu": "99"}),
		harness.PodAnnotations(map[string]string{"scheduling.tutti.dev/min-member": "2"}))...)
	env.Eventually(t, func() error { // what nothing but the scheduler knows: the minimum, and who comes first
		text, err := ask("why", "pod/own-0", "-n", a.ns)
		return saysAll(text, err, "is of implicit group own", "waits: InsufficientResources", "needs 2, has 2: 0 bound, 2 waiting", "PodGroup "+a.ns+"/big")
	})
	text, err = ask("status", "-n", a.ns, "-o", "wide")
	if err := saysAll(text, err, "seen", "Running", "big", "own", "2/2", "needs 2, 0 would fit"); err != nil {
		t.Error(err)
	}
	text, err = ask("get", "config", "-o", "jsonpath={.items[0].source}: {.items[0].text}")
	if err := saysAll(text, err, "built-in", "actions:"); err != nil {
		t.Error(err)
	}
	if text, err = ask("get", "config", "--scheduler-token", "forged"); err == nil || !strings.Contains(err.Error(), `for the audience "tutti-scheduler"`) {
		t.Errorf("a forged token: %v\n%s", err, text)
	}
}
