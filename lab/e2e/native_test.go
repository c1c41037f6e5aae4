package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/pkg/model"
)

// natives is a cluster whose API server serves PodGroups of Kubernetes, without kube-scheduler.
type natives struct {
	*harness.Env
	t   *testing.T
	log writeLog
}

// newNatives starts one of the version in which the kind is new, and the scheduler with the rights that the chart gives it.
func newNatives(t *testing.T) *natives {
	lab, log := bareCluster(t, policy, cluster.Options{
		Kubernetes: binaries.DefaultKubernetes, Kwok: true,
		APIServerArgs: []string{"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"},
	})
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: release.Namespace}})
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	if text, err := lab.Cluster.Kubectl(t.Context(), "apply", "--server-side", "-f", filepath.Join(root, "config", "rbac", "rbac.yaml")); err != nil {
		t.Fatal(text, err)
	}
	account, err := lab.Cluster.KubeconfigFor(t.Context(), release.Namespace, "tutti-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	lab.Scheduler(t, harness.SchedulerOptions{Kubeconfig: account})
	return &natives{Env: lab, t: t, log: log}
}

func (n *natives) group(name string, policy schedulingv1beta1.PodGroupSchedulingPolicy) {
	n.Create(n.t, &schedulingv1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       schedulingv1beta1.PodGroupSpec{SchedulingPolicy: policy},
	})
}

func gangOf(minCount int32) schedulingv1beta1.PodGroupSchedulingPolicy {
	return schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}}
}

// members makes pods of a group, of one CPU each.
func (n *natives) members(group string, from, to int) {
	for i := from; i < to; i++ {
		pod := n.Pod(metav1.NamespaceDefault, fmt.Sprintf("%s-%d", group, i), oneCPU)
		pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &group}
		n.Create(n.t, pod)
	}
}

// shows is nil when the conditions of a group begin so.
func (n *natives) shows(name, want string) error {
	group, err := n.Clientset.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Get(n.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	got := ""
	for _, c := range group.Status.Conditions {
		if got += fmt.Sprintf("%s=%s %s: %s; ", c.Type, c.Status, c.Reason, c.Message); c.LastTransitionTime.IsZero() {
			return fmt.Errorf("%+v has no time", c)
		}
	}
	if !strings.HasPrefix(got, want) || want == "" && got != "" {
		return fmt.Errorf("group %s shows %q, want %q", name, got, want)
	}
	return nil
}

// bound is nil when so many pods of a group have a node.
func (n *natives) bound(group string, want int) error {
	pods, err := n.Pods(n.t.Context(), metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	count := 0
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && strings.HasPrefix(pod.Name, group+"-") {
			count++
		}
	}
	if count != want {
		return fmt.Errorf("%d pods of %s are bound, want %d", count, group, want)
	}
	return nil
}

// says is nil when a pod whose name begins so waits with words. Of a group that is the oldest, and of those that are as old the
// one with the lowest UID.
func (n *natives) says(prefix, words string) error {
	pods, err := n.Pods(n.t.Context(), metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	var said []string
	for _, pod := range pods {
		if c := model.PodScheduled(&pod); c != nil && strings.HasPrefix(pod.Name, prefix) {
			if said = append(said, pod.Name+": "+c.Message); strings.Contains(c.Message, words) {
				return nil
			}
		}
	}
	return fmt.Errorf("pods %s say %q, want %s", prefix, said, words)
}

// wrote wants the scheduler to have written so many statuses of a group, after it has reported once more.
func (n *natives) wrote(name string, want int) {
	n.t.Helper()
	var pods []client.Object
	for i := range 2 { // the reason of each pod that fits nowhere is written by a report of its own
		pod := n.Pod(metav1.NamespaceDefault, fmt.Sprintf("report-%d", i), harness.Requests(map[string]string{"cpu": "1000"}))
		n.Create(n.t, pod)
		n.Eventually(n.t, func() error { return n.says(pod.Name, "cpu") })
		pods = append(pods, pod)
	}
	for _, pod := range pods {
		if err := n.Client.Delete(n.t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			n.t.Fatal(err)
		}
	}
	uri, count := fmt.Appendf(nil, "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/%s/status", name), 0
	for _, line := range n.log.lines(n.t) {
		if bytes.Contains(line, uri) && bytes.Contains(line, []byte(":tutti-scheduler")) {
			count++
		}
	}
	if count != want {
		n.t.Errorf("%d writes about %s, want %d", count, name, want)
	}
}

// TestGroupsOfKubernetes is PodGroups of scheduling.k8s.io on an API server that serves them.
func TestGroupsOfKubernetes(t *testing.T) {
	t.Parallel()
	n := newNatives(t)
	n.Nodes(t, cluster.Nodes("native", 1, map[string]string{"cpu": "3"})...)
	n.group("train", gangOf(4))
	n.members("train", 0, 3)
	n.Eventually(t, func() error { return n.says("train-", "needs 4, 3 exist") })
	if err := n.shows("train", ""); err != nil {
		t.Error(err)
	}

	// What others write stays.
	other := []byte(`{"status":{"conditions":[{"type":"DisruptionTarget","status":"False","reason":"Other","message":"m","lastTransitionTime":"2026-01-05T08:00:00Z"}]}}`)
	patch := func(name string, body []byte) error {
		_, err := n.Clientset.SchedulingV1beta1().PodGroups(metav1.NamespaceDefault).Patch(
			t.Context(), name, "application/strategic-merge-patch+json", body, metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch("train", other); err != nil {
		t.Fatal(err)
	}
	n.members("train", 3, 4)
	n.Eventually(t, func() error {
		return n.shows("train", "DisruptionTarget=False Other: m; PodGroupInitiallyScheduled=False Unschedulable: needs 4, 3 would fit")
	})
	if err := n.bound("train", 0); err != nil {
		t.Error(err)
	}
	n.Nodes(t, cluster.Nodes("native-more", 1, map[string]string{"cpu": "1"})...)
	const placed = "DisruptionTarget=False Other: m; PodGroupInitiallyScheduled=True Scheduled: the minimum is bound; "
	n.Eventually(t, func() error { return errors.Join(n.bound("train", 4), n.shows("train", placed)) })
	n.wrote("train", 2)

	// A member is lost, and its replacement finds no place: the group was placed all the same.
	if err := n.Client.Delete(t.Context(), n.Pod(metav1.NamespaceDefault, "train-3")); err != nil {
		t.Fatal(err)
	}
	n.Eventually(t, func() error { return n.bound("train", 3) })
	blocker := n.Pod(metav1.NamespaceDefault, "blocker", oneCPU)
	n.AfterCycle(t, blocker)
	n.members("train", 4, 5)
	n.Eventually(t, func() error { return n.says("train-4", "lack") })
	n.wrote("train", 2)
	if err := n.shows("train", placed); err != nil {
		t.Error(err)
	}
	n.contested(patch)
}

// contested: another program writes the condition, too. It is written no more then, and an event says so. Groups without members
// of ours are not written.
func (n *natives) contested(patch func(name string, body []byte) error) {
	n.group("theirs", gangOf(2))
	n.group("contested", gangOf(2))
	n.group("basic", schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}})
	n.members("contested", 0, 2)
	n.members("basic", 0, 2)
	ours := "PodGroupInitiallyScheduled=False Unschedulable: needs 2"
	back := []byte(`{"status":{"conditions":[{"type":"PodGroupInitiallyScheduled","status":"False","reason":"Theirs","message":"m","lastTransitionTime":"2026-01-05T08:00:00Z"}]}}`)
	n.Eventually(n.t, func() error {
		if err := n.shows("contested", ours); err == nil {
			return errors.Join(patch("contested", back), errors.New("it was ours"))
		}
		events, err := n.Clientset.EventsV1().Events(metav1.NamespaceDefault).List(n.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Name == "contested" && event.Reason == "StatusContested" {
				return nil
			}
		}
		return errors.New("no event says that another program writes the status")
	})
	n.wrote("contested", 2)
	n.wrote("theirs", 0)
	n.wrote("basic", 0)
}
