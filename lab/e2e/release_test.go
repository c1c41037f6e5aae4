package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/process"
)

// The tests of this file are about what operators do with a release besides installing it.

// rollback goes back to the values and the CRD that were installed first, and forth again.
func rollback(t *testing.T, lab *harness.Env) {
	upgraded := podTemplate(t, lab)
	back := func(revision string) corev1.PodTemplateSpec {
		_, err := lab.Cluster.Helm(t.Context(), "rollback", release.Name, revision,
			"--namespace", release.Namespace, "--wait", "--timeout", release.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		return podTemplate(t, lab)
	}
	first := back("1")
	if args := first.Spec.Containers[0].Args; slices.Contains(args, "--bind-deadline=40s") || len(args) < 5 {
		t.Errorf("arguments after the rollback: %q", args)
	}
	if text := crdText(t, lab); !strings.Contains(text, "name: Line") {
		t.Error("the rollback left the CRD of the later chart")
	}
	if again := back("2"); !slices.Equal(again.Spec.Containers[0].Args, upgraded.Spec.Containers[0].Args) {
		t.Errorf("arguments after the way back: %q\nwant %q", again.Spec.Containers[0].Args, upgraded.Spec.Containers[0].Args)
	}
	if text := crdText(t, lab); !strings.Contains(text, "name: Reason") {
		t.Error("the way back left the old CRD")
	}
}

// assertPeople wants those with the usual roles in a namespace to reach its PodGroups, and none of them their status.
func assertPeople(t *testing.T, lab *harness.Env) {
	const ns = "people"
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	for _, role := range []string{"view", "edit", "admin"} {
		if _, err := lab.Cluster.Kubectl(t.Context(), "create", "rolebinding", role, "--clusterrole="+role, "--user="+role, "-n", ns); err != nil {
			t.Fatal(err)
		}
		may := func(verb, namespace string, more ...string) string {
			// It prints no, and fails, when the answer is no.
			args := []string{"auth", "can-i", verb, "podgroups.scheduling.tutti.dev", "-n", namespace, "--as=" + role}
			text, _ := lab.Cluster.Kubectl(t.Context(), append(args, more...)...)
			return strings.TrimSpace(text)
		}
		writes := "yes"
		if role == "view" {
			writes = "no"
		}
		// The controller that aggregates roles may not have come to them yet.
		lab.Eventually(t, func() error {
			for verb, want := range map[string]string{"list": "yes", "create": writes, "patch": writes, "delete": writes} {
				if got := may(verb, ns); got != want {
					return fmt.Errorf("%s: may %s PodGroups: %q, want %s", role, verb, got, want)
				}
			}
			return nil
		})
		for _, verb := range []string{"create", "update", "patch"} {
			if got := may(verb, ns, "--subresource=status"); got != "no" {
				t.Errorf("%s: may %s the status of PodGroups: %q", role, verb, got)
			}
		}
		if got := may("list", "default"); got != "no" {
			t.Errorf("%s: may list PodGroups of another namespace: %q", role, got)
		}
	}
}

// helmTest runs what `helm test` runs: in the cluster, where it takes the scheduler to end, and the command of its pods here,
// since no node of the lab runs a container.
func helmTest(t *testing.T, lab *harness.Env, program string) {
	if _, err := lab.Cluster.Helm(t.Context(), "test", release.Name, "--namespace", release.Namespace, "--timeout", release.Timeout); err != nil {
		t.Errorf("helm test: %v", err)
	}
	commands := 0
	for _, object := range render(t) {
		if object.GetKind() != "Job" || object.GetAnnotations()["helm.sh/hook"] != "test" {
			continue
		}
		var job batchv1.Job
		convert(t, object, &job)
		for _, container := range job.Spec.Template.Spec.Containers {
			commands++
			if len(container.Command) > 0 {
				t.Errorf("container %s runs %q, and the image has no such program", container.Name, container.Command)
			}
			if text, err := exec.CommandContext(t.Context(), program, container.Args...).CombinedOutput(); err != nil {
				t.Errorf("%s %q: %v: %s", program, container.Args, err, text)
			}
		}
	}
	if commands == 0 {
		t.Error("helm test runs nothing")
	}
}

// TestReplicasTakeOver kills the leader of two replicas that run as the chart has them, and measures how long it takes until
// the other one has started a gang.
func TestReplicasTakeOver(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: env.Cluster.Version(), ControllerManager: true, Scheduler: true, Kwok: true, Dir: t.TempDir(), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateNodes(t.Context(), cluster.Nodes("two", 2, map[string]string{"cpu": "8", "memory": "16Gi"})...); err != nil {
		t.Fatal(err)
	}
	if err := release.Install(t.Context(), c, chartFolder(t)); err != nil {
		t.Fatal(err)
	}
	installed, err := release.Read(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if installed.Ready != 2 {
		t.Fatalf("%d replicas are ready, want two by default", installed.Ready)
	}
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	var replicas []*process.Process
	for _, name := range []string{"replica-first", "replica-second"} {
		p, err := installed.Start(t.Context(), c, name, program)
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, p)
		lab.Eventually(t, func() error { _, err := heldLease(t, lab, release.Namespace); return err }) // the first of them leads
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "jobs"}}
	lab.Create(t, ns, group("jobs", "before", 2))
	lab.Create(t, members("jobs", "before", "", 2)...)
	lab.Eventually(t, func() error { return says(t, lab, "before", metav1.ConditionTrue, "Scheduled", 2) })

	assertTakeOver(t, lab, replicas[0])
}

// assertTakeOver kills the leader, and wants the other replica to start a gang in time.
func assertTakeOver(t *testing.T, lab *harness.Env, leader *process.Process) {
	t.Helper()
	leader.Kill()
	died := time.Now()
	before, err := heldLease(t, lab, release.Namespace) // with the last renewal in it
	if err != nil {
		t.Fatal(err)
	}
	lab.Create(t, group("jobs", "after", 2))
	lab.Create(t, members("jobs", "after", "", 2)...)
	lab.Eventually(t, func() error { return says(t, lab, "after", metav1.ConditionTrue, "Scheduled", 2) })
	takings{time.Since(died)}.check(t, "a start after the leader was killed", leaseDuration+5*time.Second+slack)
	after, err := heldLease(t, lab, release.Namespace)
	if err != nil || *after.Spec.HolderIdentity == *before.Spec.HolderIdentity {
		t.Fatalf("the Lease is held by the one of before, %q; %v", *before.Spec.HolderIdentity, err)
	}
	// The other one may have looked just before the last renewal, and again just before the Lease that it then saw had ended.
	takings{after.Spec.AcquireTime.Sub(before.Spec.RenewTime.Time)}.check(t, "the time from the last renewal of the Lease until the other one had it", leaseDuration+2*lookAgain+slack)
}

const (
	// leaseDuration is for how long a leader need not renew its Lease.
	leaseDuration = 15 * time.Second
	// lookAgain is how often a replica that waits to be elected looks at the Lease.
	lookAgain = 500 * time.Millisecond
	// slack is what a busy machine adds.
	slack = 2 * time.Second
)

// heldLease is the Lease of the schedulers of a namespace, which one of them holds.
func heldLease(t *testing.T, lab *harness.Env, namespace string) (*coordinationv1.Lease, error) {
	t.Helper()
	var lease coordinationv1.Lease
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: leaseOf}, &lease); err != nil {
		return nil, err
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil, fmt.Errorf("no scheduler holds the Lease")
	}
	return &lease, nil
}

// TestKustomizeIsTheChart wants config/default to be what the chart installs by default, and the namespace. The Job that checks
// the configuration before an install is helm's alone.
func TestKustomizeIsTheChart(t *testing.T) {
	plain, err := env.Cluster.Kubectl(t.Context(), "kustomize", filepath.Join(chartFolder(t), "..", "..", "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := byName(t, decode(t, plain)), byName(t, render(t, "--skip-tests", "--set", "configCheck.enabled=false", "--kube-version", env.Cluster.Version()))
	namespace := "Namespace /" + release.Namespace
	if _, found := got[namespace]; !found {
		t.Errorf("config/default has no %s", namespace)
	}
	delete(got, namespace)
	for name, text := range want {
		switch other, found := got[name]; {
		case !found:
			t.Errorf("config/default lacks %s", name)
		case other != text:
			t.Errorf("%s in config/default is\n%s\nin the chart it is\n%s", name, other, text)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("the chart lacks %s of config/default", name)
	}
}

// byName is what matters of objects, by kind, namespace and name: all but what helm needs to know its own by, and the labels
// of the CRD, which has a file of its own.
func byName(t *testing.T, objects []*unstructured.Unstructured) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, object := range objects {
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/managed-by")
		delete(annotations, "helm.sh/resource-policy")
		if object.GetKind() == "CustomResourceDefinition" {
			labels = nil
		}
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
		text, err := json.MarshalIndent(object, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		all[object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
	}
	if len(all) != len(objects) || len(all) < 10 {
		t.Fatalf("%d objects of %d names", len(objects), len(all))
	}
	return all
}
