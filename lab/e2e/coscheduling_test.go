package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// appears is how long a kind for which pods wait may take to be followed, on a free machine: it is asked for every six seconds.
const appears = 10 * time.Second

func installCoscheduling(t *testing.T) {
	t.Helper()
	if text, err := env.Cluster.Kubectl(t.Context(), "apply", "-f", filepath.Join(chartFolder(t), "files", "sources", "coscheduling")); err != nil {
		t.Fatal(text, err)
	}
	t.Cleanup(func() {
		text, err := env.Cluster.Kubectl(context.WithoutCancel(t.Context()), "delete", "crd", "podgroups.scheduling.x-k8s.io", "--ignore-not-found")
		if err != nil {
			t.Error(text, err)
		}
	})
}

// coscheduled is a group of scheduling.x-k8s.io.
func coscheduled(namespace, name string, minMember int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": minMember}}}
	object.SetAPIVersion("scheduling.x-k8s.io/v1alpha1")
	object.SetKind("PodGroup")
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// coscheduledPods are pods that name such a group, of one CPU each.
func coscheduledPods(namespace, group string, from, to int) (pods []client.Object) {
	for i := from; i < to; i++ {
		pods = append(pods, env.Pod(namespace, fmt.Sprintf("%s-%d", group, i), oneCPU,
			harness.PodLabels(map[string]string{"scheduling.x-k8s.io/pod-group": group})))
	}
	return pods
}

// saysWhy is nil when a pod whose name begins so waits with that reason and words: of a gang the oldest has the numbers.
func saysWhy(t *testing.T, namespace, prefix, reason, words string) error {
	t.Helper()
	pods, err := env.Pods(t.Context(), namespace)
	if err != nil {
		return err
	}
	said := ""
	for _, pod := range pods {
		for _, condition := range pod.Status.Conditions {
			if !strings.HasPrefix(pod.Name, prefix) || condition.Type != corev1.PodScheduled {
				continue
			}
			if condition.Reason == reason && strings.Contains(condition.Message, words) {
				return nil
			}
			said += fmt.Sprintf("; %s: %s %s", pod.Name, condition.Reason, condition.Message)
		}
	}
	return fmt.Errorf("no pod %s* says %s: %s%s", prefix, reason, words, said)
}

// TestCoscheduling is groups of scheduling.x-k8s.io, whose CRD is installed while the scheduler runs.
func TestCoscheduling(t *testing.T) {
	env.Scheduler(t, harness.SchedulerOptions{})
	ns := env.Namespace(t)
	env.Nodes(t, cluster.Nodes("coscheduling", 1, map[string]string{"cpu": "3"})...)
	env.Create(t, coscheduledPods(ns, "train", 0, 3)...)
	env.Eventually(t, func() error {
		return saysWhy(t, ns, "train-", "GroupNotFound", "the CRD of this kind is not installed")
	})

	installCoscheduling(t)
	group := coscheduled(ns, "train", 4)
	env.Eventually(t, func() error { return env.Client.Create(t.Context(), group.DeepCopy()) })
	began := time.Now()
	env.Eventually(t, func() error { return saysWhy(t, ns, "train-", "NotEnoughMembers", "needs 4, 3 exist") })
	takings{time.Since(began)}.check(t, "the time until a kind that came is followed", appears)
	minimum := func(n int) {
		t.Helper()
		if err := env.Client.Patch(t.Context(), group.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"minMember":%d}}`, n))); err != nil {
			t.Fatal(err)
		}
	}
	minimum(3)
	env.Eventually(t, func() error { return boundOf(t, ns, "train-", 3) })

	// It runs: a minimum that is raised takes nothing from it.
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), ns)
		for _, pod := range pods {
			if pod.Status.Phase != corev1.PodRunning {
				err = errors.Join(err, fmt.Errorf("%s is %s", pod.Name, pod.Status.Phase))
			}
		}
		return err
	})
	minimum(5)
	env.Create(t, coscheduledPods(ns, "train", 3, 4)...)
	env.Eventually(t, func() error { return saysWhy(t, ns, "train-3", "Unschedulable", "1 node lacks cpu") })
	if err := boundOf(t, ns, "train-", 3); err != nil {
		t.Error(err)
	}

	// Its object goes: what runs stays, and what waits says so. The same name is a new group.
	if err := env.Client.Delete(t.Context(), group.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return saysWhy(t, ns, "train-3", "GroupNotFound", "does not exist in this namespace") })
	if err := boundOf(t, ns, "train-", 3); err != nil {
		t.Error(err)
	}
	env.Nodes(t, cluster.Nodes("coscheduling-more", 1, map[string]string{"cpu": "1"})...)
	env.Create(t, coscheduled(ns, "train", 2))
	env.Eventually(t, func() error { return boundOf(t, ns, "train-", 4) })

	// One place short, nothing of a gang starts.
	env.Create(t, coscheduled(ns, "short", 2))
	env.Create(t, coscheduledPods(ns, "short", 0, 2)...)
	env.Nodes(t, cluster.Nodes("coscheduling-short", 1, map[string]string{"cpu": "1"})...)
	env.Eventually(t, func() error { return saysWhy(t, ns, "short-", "Unschedulable", "needs 2, 1 would fit") })
	if err := boundOf(t, ns, "short-", 0); err != nil {
		t.Error(err)
	}
	env.Nodes(t, cluster.Nodes("coscheduling-enough", 1, map[string]string{"cpu": "1"})...)
	env.Eventually(t, func() error { return boundOf(t, ns, "short-", 2) })
}

// TestCoschedulingForbidden: without the right to read the groups their pods wait and say so, and all else goes on.
func TestCoschedulingForbidden(t *testing.T) {
	installCoscheduling(t)
	ns := env.Namespace(t)
	account, role := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "limited"}}, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "limited-" + ns},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{
				"", "policy", "scheduling.k8s.io", "storage.k8s.io", "resource.k8s.io", "scheduling.tutti.dev", "events.k8s.io", "authentication.k8s.io",
				"authorization.k8s.io",
			}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{NonResourceURLs: []string{"*"}, Verbs: []string{"get"}},
		},
	}
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
	env.Nodes(t, cluster.Nodes("forbidden", 1, map[string]string{"cpu": "4"})...)
	group := coscheduled(ns, "train", 2)
	env.Eventually(t, func() error { return env.Client.Create(t.Context(), group.DeepCopy()) })
	env.Create(t, append(coscheduledPods(ns, "train", 0, 2), env.Pod(ns, "alone", oneCPU))...)
	env.Eventually(t, func() error {
		return errors.Join(boundOf(t, ns, "alone", 1), saysWhy(t, ns, "train-", "GroupNotFound", "the scheduler lacks the right to list and watch objects of this kind"))
	})
	if err := boundOf(t, ns, "train-", 0); err != nil {
		t.Error(err)
	}
	rules := []byte(`[{"op":"add","path":"/rules/-","value":{"apiGroups":["scheduling.x-k8s.io"],"resources":["podgroups"],"verbs":["list","watch"]}}]`)
	if err := env.Client.Patch(t.Context(), role, client.RawPatch("application/json-patch+json", rules)); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, func() error { return boundOf(t, ns, "train-", 2) })
}
