package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	isolcpu "github.com/tutti-sched/tutti/pkg/isolated"
)

// TestKubeletsAdmitWhatIsBound fills a node whose allocatable CPU counts the isolated ones, and one where it does not, with
// pods of both kinds, and gives what the API server says of nodes and pods to the check with which a kubelet admits them: all
// are admitted, and who is left over waits with a reason.
func TestKubeletsAdmitWhatIsBound(t *testing.T) {
	t.Parallel()
	lab, _ := quietCluster(t)
	included := quietNodes(t, "included", 1)[0]
	topology := upperHalf(t)
	topology.Mode = isolcpu.Excluded
	text, err := topology.Text()
	if err != nil {
		t.Fatal(err)
	}
	excluded := cluster.Node("excluded-0", map[string]string{"cpu": "6", "memory": "64Gi"},
		cluster.NodeAnnotations(map[string]string{isolcpu.TopologyAnnotation: text}))
	lab.Nodes(t, included, excluded)
	lab.Scheduler(t, harness.SchedulerOptions{Args: []string{"--isolated-cpus-without-agents"}})
	for _, c := range []struct {
		node                    string
		isolated, ordinary      int
		boundIsolated, boundAll int
		reasons                 []string
	}{
		{"included-0", 9, 7, 8, 14, []string{"insufficient isolated cpu (need 1, free 0)", "lacks cpu"}},
		{"excluded-0", 3, 5, 0, 6, []string{"kubelet admission limit"}},
	} {
		var pods []*corev1.Pod
		here := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: c.node} }
		for i := range c.isolated {
			pods = append(pods, wants(lab, fmt.Sprintf("%s-isolated-%d", c.node, i), "1", here))
		}
		for i := range c.ordinary {
			pods = append(pods, lab.Pod(metav1.NamespaceDefault, fmt.Sprintf("%s-ordinary-%d", c.node, i), here,
				harness.Requests(map[string]string{"cpu": "1"})))
		}
		if err := lab.CreatePods(t.Context(), pods...); err != nil {
			t.Fatal(err)
		}
		lab.Eventually(t, func() error { return boundAndWaiting(t, lab, pods, c.boundAll, c.reasons) })
		if isolated := admitAll(t, lab, c.node); c.boundIsolated > 0 && isolated != c.boundIsolated {
			t.Errorf("%s: %d pods with isolated CPUs are bound, want %d", c.node, isolated, c.boundIsolated)
		}
	}
}

// boundAndWaiting is nil once so many of the pods are bound, and each other pod says one of the reasons, and each reason is
// said by a pod.
func boundAndWaiting(t *testing.T, lab *harness.Env, pods []*corev1.Pod, bound int, reasons []string) error {
	t.Helper()
	count, said := 0, map[string]bool{}
	for _, pod := range pods {
		if err := lab.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			count++
			continue
		}
		text := fmt.Sprint(pod.Status.Conditions)
		reason := slices.IndexFunc(reasons, func(words string) bool { return strings.Contains(text, words) })
		if reason < 0 {
			return fmt.Errorf("pod %s waits and says %s, want one of %q", pod.Name, text, reasons)
		}
		said[reasons[reason]] = true
	}
	if count != bound || len(said) != len(reasons) {
		return fmt.Errorf("%d of %d pods are bound, want %d; the others say %v", count, len(pods), bound, said)
	}
	return nil
}

// admitAll gives the pods of a node, one after the other, to the kubelet's check, and returns how many have isolated CPUs.
func admitAll(t *testing.T, lab *harness.Env, name string) (isolated int) {
	t.Helper()
	var node corev1.Node
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	pods, err := lab.Pods(t.Context(), metav1.NamespaceDefault)
	if err != nil {
		t.Fatal(err)
	}
	var admitted []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName != name {
			continue
		}
		known := kubeframework.NewNodeInfo(admitted...)
		known.SetNode(&node)
		for _, refusal := range scheduler.AdmissionCheck(pod, known, true) {
			t.Errorf("the kubelet of %s does not admit %s beside %d others: %+v", name, pod.Name, len(admitted), refusal)
		}
		admitted = append(admitted, pod)
		if held, err := isolcpu.AssignedTo(pod); err == nil && held != nil {
			isolated++
		}
	}
	return isolated
}
