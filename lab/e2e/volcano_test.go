package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

func installVolcano(t *testing.T) {
	t.Helper()
	if text, err := env.Cluster.Kubectl(t.Context(), "apply", "-f", filepath.Join(chartFolder(t), "files", "sources", "volcano")); err != nil {
		t.Fatal(text, err)
	}
	t.Cleanup(func() {
		text, err := env.Cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", "crd", "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh", "--ignore-not-found")
		if err != nil {
			t.Error(text, err)
		}
	})
}

// volcanoGroup is a group of scheduling.volcano.sh as KubeRay makes it: its status says Pending. An empty phase is no status, as
// others make it.
func volcanoGroup(namespace, name string, minMember int64, phase string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": minMember}}}
	if phase != "" {
		object.Object["status"] = map[string]any{"phase": phase}
	}
	object.SetAPIVersion("scheduling.volcano.sh/v1beta1")
	object.SetKind("PodGroup")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// volcanoPods are pods that name such a group, of one CPU each.
func volcanoPods(namespace, group string, from, to int, options ...harness.PodOption) (pods []client.Object) {
	options = append(options, oneCPU, harness.PodAnnotations(map[string]string{"scheduling.k8s.io/group-name": group}))
	for i := from; i < to; i++ {
		pods = append(pods, env.Pod(namespace, fmt.Sprintf("%s-%d", group, i), options...))
	}
	return pods
}

// volcanoShows is the status of a group in few words, and its generation, which each change raises by one: there is no status
// subresource.
func volcanoShows(t *testing.T, namespace, name string) (words string, generation int64, err error) {
	t.Helper()
	group := volcanoGroup(namespace, name, 0, "")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
		return "", 0, err
	}
	words, _, _ = unstructured.NestedString(group.Object, "status", "phase")
	conditions, _, _ := unstructured.NestedSlice(group.Object, "status", "conditions")
	for _, condition := range conditions {
		if fields, ok := condition.(map[string]any); ok {
			words += fmt.Sprintf(" %v=%v %v: %v", fields["type"], fields["status"], fields["reason"], fields["message"])
		}
	}
	return words, group.GetGeneration(), nil
}

func showsVolcano(t *testing.T, namespace, name, want string) error {
	t.Helper()
	words, _, err := volcanoShows(t, namespace, name)
	if err == nil && !strings.HasPrefix(words, want) {
		err = fmt.Errorf("group %s shows %q, want %q", name, words, want)
	}
	return err
}

// operate makes a group and, once it is admitted, its pods, as operators do that wait for the phase.
func operate(t *testing.T, group *unstructured.Unstructured, before func(), pods []client.Object) {
	t.Helper()
	env.Create(t, group.DeepCopy())
	before()
	env.Eventually(t, func() error {
		phase, _, err := volcanoShows(t, group.GetNamespace(), group.GetName())
		if err == nil && (phase == "" || phase == "Pending") {
			err = fmt.Errorf("group %s has the phase %q", group.GetName(), phase)
		}
		return err
	})
	env.Create(t, pods...)
}

// reported returns when the scheduler has reported on the cluster so often after this moment: the condition of a pod that can run
// nowhere is written by a report.
func reported(t *testing.T, namespace string, times int) {
	t.Helper()
	for i := range times {
		name := fmt.Sprintf("report-%d-%d", time.Now().UnixNano(), i)
		pod := env.Pod(namespace, name, harness.Requests(map[string]string{"cpu": "1000"}))
		env.Create(t, pod)
		env.Eventually(t, func() error { return saysWhy(t, namespace, name, "Unschedulable", "") })
		if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// volcanoVersions are the resource versions of all groups of a namespace.
func volcanoVersions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("scheduling.volcano.sh/v1beta1")
	list.SetKind("PodGroupList")
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, group := range list.Items {
		versions[group.GetName()] = group.GetResourceVersion()
	}
	return versions
}

// TestVolcano is groups of scheduling.volcano.sh whose operator makes no pods before they are admitted.
func TestVolcano(t *testing.T) {
	installVolcano(t)
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("volcano", 1, map[string]string{"cpu": "3"})...)
	first := env.Scheduler(t, harness.SchedulerOptions{})
	job := volcanoGroup(ns, "job", 4, "Pending")
	operate(t, job, func() { // the scheduler starts again before there are pods
		first.Kill()
		env.Scheduler(t, harness.SchedulerOptions{})
	}, volcanoPods(ns, "job", 0, 3, runs))
	env.Eventually(t, func() error {
		return showsVolcano(t, ns, "job", "Inqueue Unschedulable=True NotEnoughTasks: needs 4, 3 exist")
	})

	// What others write stays.
	other := []byte(`[{"op":"add","path":"/status/conditions/0","value":{"type":"Other","status":"x","reason":"r","message":"m"}}]`)
	if err := env.Client.Patch(t.Context(), job.DeepCopy(), client.RawPatch("application/json-patch+json", other)); err != nil {
		t.Fatal(err)
	}
	env.Create(t, volcanoPods(ns, "job", 3, 4, runs)...)
	env.Eventually(t, func() error {
		return showsVolcano(t, ns, "job", "Inqueue Other=x r: m Unschedulable=True NotEnoughResources: needs 4, 3 would fit")
	})
	if err := boundOf(t, ns, "job-", 0); err != nil {
		t.Error(err)
	}
	env.Nodes(t, cluster.Nodes("volcano-more", 1, map[string]string{"cpu": "3"})...)
	env.Eventually(t, func() error {
		return errors.Join(boundOf(t, ns, "job-", 4), showsVolcano(t, ns, "job", "Running Other=x r: m Scheduled=True Scheduled: the minimum is bound"))
	})
	finish(t, ns, "job-")
	env.Eventually(t, func() error { return showsVolcano(t, ns, "job", "Completed Other=x r: m Scheduled=True") })
	if _, generation, err := volcanoShows(t, ns, "job"); err != nil || generation > 1+6+1 { // made, a life, and the write of the test
		t.Errorf("%v, generation %d: more than six writes", err, generation)
	}
	before := volcanoVersions(t, ns)
	reported(t, ns, 2)
	if after := volcanoVersions(t, ns); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("at rest, versions %v became %v", before, after)
	}

	manyVolcanoGroups(t, env.Namespace(t))
	contestedVolcanoGroup(t, env.Namespace(t))
}

// manyVolcanoGroups: hundreds of groups that are made at once are admitted within ten seconds, each by one write.
func manyVolcanoGroups(t *testing.T, ns string) {
	const many = 300
	config := rest.CopyConfig(env.Cluster.Config())
	config.QPS = -1
	fast, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var made sync.WaitGroup
	began := time.Now()
	for worker := range 10 {
		made.Go(func() {
			for i := worker; i < many; i += 10 {
				if err := fast.Create(t.Context(), volcanoGroup(ns, fmt.Sprintf("g%03d", i), 2, []string{"", "Pending"}[i%2])); err != nil {
					t.Error(err)
				}
			}
		})
	}
	made.Wait()
	took := time.Since(began)
	env.Eventually(t, func() error {
		_, admitted := admittedVolcano(t, ns)
		if admitted != many {
			return fmt.Errorf("%d of %d groups are admitted", admitted, many)
		}
		return nil
	})
	t.Logf("%d groups were made in %s", many, took)
	takings{time.Since(began)}.check(t, "to make and to admit them", 10*time.Second)
	reported(t, ns, 2)
	if writes, _ := admittedVolcano(t, ns); writes != many {
		t.Errorf("%d writes, want one for each of %d groups", writes, many)
	}
}

// admittedVolcano counts the groups that are Inqueue, and how often all of them were written.
func admittedVolcano(t *testing.T, ns string) (writes, admitted int) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("scheduling.volcano.sh/v1beta1")
	list.SetKind("PodGroupList")
	if err := env.Client.List(t.Context(), list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, group := range list.Items {
		writes += int(group.GetGeneration()) - 1
		if phase, _, _ := unstructured.NestedString(group.Object, "status", "phase"); phase == "Inqueue" {
			admitted++
		}
	}
	return writes, admitted
}

// contestedVolcanoGroup: another program puts the phase back. It is written no more then, and an event says so.
func contestedVolcanoGroup(t *testing.T, ns string) {
	group := volcanoGroup(ns, "contested", 2, "Pending")
	env.Create(t, group)
	back := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Pending"}}`))
	env.Eventually(t, func() error { // what is replaced before a report has seen it is waited for half a minute, twice
		if words, _, err := volcanoShows(t, ns, group.GetName()); err != nil || words == "Inqueue" {
			return errors.Join(err, env.Client.Patch(t.Context(), group.DeepCopy(), back), errors.New("it was Inqueue"))
		}
		events, err := env.Clientset.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == group.GetName() && event.Reason == "StatusContested" {
				return nil
			}
		}
		return errors.New("no event says that another program writes the status")
	})
	_, before, err := volcanoShows(t, ns, group.GetName())
	if err != nil || before != 1+2+2 { // made, written twice, put back twice
		t.Errorf("%v: generation %d", err, before)
	}
	reported(t, ns, 2)
	if _, after, err := volcanoShows(t, ns, group.GetName()); err != nil || after != before {
		t.Errorf("%v: generation %d became %d", err, before, after)
	}
}

// TestVolcanoForbidden: without the right to write the status the group says so, and all else goes on.
func TestVolcanoForbidden(t *testing.T) {
	installVolcano(t)
	ns := env.Namespace(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reads-" + ns},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{
				"", "policy", "scheduling.k8s.io", "storage.k8s.io", "resource.k8s.io", "scheduling.tutti.dev", "events.k8s.io", "authentication.k8s.io",
				"authorization.k8s.io",
			}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{"scheduling.volcano.sh"}, Resources: []string{"podgroups"}, Verbs: []string{"list", "watch"}},
			{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
		},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "reads"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: account.Name}},
	}
	env.Create(t, account, role, binding)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(env.Client.Delete(ctx, role), env.Client.Delete(ctx, binding)); err != nil {
			t.Error(err)
		}
	})
	kubeconfig, err := env.Cluster.KubeconfigFor(t.Context(), ns, account.Name)
	if err != nil {
		t.Fatal(err)
	}
	env.Scheduler(t, harness.SchedulerOptions{Kubeconfig: kubeconfig})
	env.Nodes(t, cluster.Nodes("unwritten", 1, map[string]string{"cpu": "4"})...)
	env.Create(t, volcanoGroup(ns, "job", 2, ""))
	env.Eventually(t, func() error {
		events, err := env.Clientset.EventsV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "job" && event.Reason == "StatusRefused" && strings.Contains(event.Note, "forbidden") {
				return nil
			}
		}
		return errors.New("no event says that the status is refused")
	})
	env.Create(t, append(volcanoPods(ns, "job", 0, 2), env.Pod(ns, "alone", oneCPU))...) // by an operator that does not wait
	env.Eventually(t, func() error { return errors.Join(boundOf(t, ns, "alone", 1), boundOf(t, ns, "job-", 2)) })
	rules := []byte(`[{"op":"add","path":"/rules/1/verbs/-","value":"patch"}]`)
	if err := env.Client.Patch(t.Context(), role, client.RawPatch("application/json-patch+json", rules)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return showsVolcano(t, ns, "job", "Running Scheduled=True") })
}
