package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	isolcpu "github.com/tutti-sched/tutti/pkg/isolated"
)

// agentLabel is the chart's for nodes that get the agent.
var agentLabel = map[string]string{"isolcpu.tutti.dev/agent": "true"}

// quietNode is a node with the agent's label. It has sixteen CPUs, of which two are reserved.
func quietNode() *corev1.Node {
	return cluster.Node("quiet-0", map[string]string{"cpu": "14", "memory": "8Gi"}, cluster.NodeLabels(agentLabel),
		cluster.NodeTaints(corev1.Taint{Key: "quiet", Effect: corev1.TaintEffectNoSchedule}))
}

// upperHalf is a machine of sixteen CPUs on one NUMA node, the upper half isolated, which allocatable counts.
func upperHalf(t *testing.T) *isolcpu.Topology {
	t.Helper()
	topology, err := isolcpu.ParseTopology(`{"v":1,"gen":0,"source":"isolcpus","isolated":"8-15","online":"0-15",` +
		`"mode":"included","threadsPerCore":1,"kubelet":{},` +
		`"numa":[{"id":0,"cpus":"8-15","cores":["8","9","10","11","12","13","14","15"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// TestIsolatedCPUsAreOffUnlessAskedFor: of all that is theirs a release has nothing by default, and all of it when it is
// turned on. That users write no assignments is of all pods.
func TestIsolatedCPUsAreOffUnlessAskedFor(t *testing.T) {
	for enabled, want := range map[string][]string{
		"false": nil,
		"true": {
			"ClusterRole tutti-agent", "ClusterRoleBinding tutti-agent", "DaemonSet tutti-agent", "FlowSchema tutti-agent", "NetworkPolicy tutti-agent",
			"Role tutti-agent", "Role tutti-scheduler-agents", "RoleBinding tutti-agent", "RoleBinding tutti-scheduler-agents",
			"ServiceAccount tutti-agent",
			"ValidatingAdmissionPolicy agent", "ValidatingAdmissionPolicy lease", "ValidatingAdmissionPolicy request", "ValidatingAdmissionPolicy resize",
			"ValidatingAdmissionPolicyBinding agent", "ValidatingAdmissionPolicyBinding lease", "ValidatingAdmissionPolicyBinding request", "ValidatingAdmissionPolicyBinding resize",
		},
	} {
		args := []string{"--set", "isolcpu.enabled=" + enabled}
		if enabled == "false" {
			args = nil
		}
		var found []string
		gated := false
		for _, object := range render(t, args...) {
			kind, name := object.GetKind(), object.GetName()
			_, policy, is := strings.Cut(name, "-isolcpu-")
			switch {
			case is:
				found = append(found, kind+" "+policy)
			case strings.Contains(name, "agent") || kind == "DaemonSet":
				found = append(found, kind+" "+strings.ReplaceAll(name, release.Namespace+"-", ""))
			case kind == "Deployment":
				gated = strings.Contains(fmt.Sprint(object.Object), "--agent-lease-namespace=")
			}
		}
		if slices.Sort(found); !slices.Equal(found, want) || gated != (enabled == "true") {
			t.Errorf("enabled=%s: there are %q, and Leases are looked at: %v; want %q", enabled, found, gated, want)
		}
	}
}

// assertDaemonSet wants the agent where the label is and nowhere else, and as little allowed there as it can do with.
func assertDaemonSet(t *testing.T, lab *harness.Env) {
	var set appsv1.DaemonSet
	key := client.ObjectKey{Namespace: release.AgentNamespace, Name: release.DaemonSet}
	if err := lab.Client.Get(t.Context(), key, &set); err != nil {
		t.Fatal(err)
	}
	if set.Status.DesiredNumberScheduled != 1 || set.Status.NumberReady != 1 {
		t.Errorf("helm --wait returned with %d agents ready, %d wanted; one node has the label",
			set.Status.NumberReady, set.Status.DesiredNumberScheduled)
	}
	spec := set.Spec.Template.Spec
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Error("the agent is in the host's namespaces")
	}
	security := spec.Containers[0].SecurityContext
	if security.Privileged != nil || *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem ||
		len(security.Capabilities.Add) > 0 || !slices.Equal(security.Capabilities.Drop, []corev1.Capability{"ALL"}) ||
		spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the agent may more than it needs: %+v", security)
	}
	for _, mount := range spec.Containers[0].VolumeMounts {
		if !mount.ReadOnly && mount.Name != "nri" {
			t.Errorf("the agent may write to %s", mount.MountPath)
		}
	}
}

// playAgent lets the agent of the one node with isolated CPUs come, go and come back, with the rights of its pod there,
// beside the scheduler with the arguments of the chart.
func playAgent(t *testing.T, lab *harness.Env) {
	assertDaemonSet(t, lab)
	lab.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "quiet"}})
	agent, err := release.AgentOn(t.Context(), lab.Cluster, "quiet-0", upperHalf(t))
	if err != nil {
		t.Fatal(err)
	}
	submit := func(name, cpus string) {
		lab.Create(t, lab.Pod("quiet", name, harness.Requests(map[string]string{"cpu": cpus}),
			harness.PodAnnotations(map[string]string{isolcpu.RequestAnnotation: "true"}),
			func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "quiet", Operator: corev1.TolerationOpExists}}
			}))
	}
	submit("first", "3")
	lab.Eventually(t, func() error { return waitsWith(t, lab, "first", "no isolated cpu") })
	// It has been silent for a minute when its annotation arrives.
	if _, err := agent.Publish(t.Context(), time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, func() error { return waitsWith(t, lab, "first", "isolcpu agent not ready") })
	renew := func(at time.Time) {
		t.Helper()
		if err := agent.Renew(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	// There all the while, however long the scheduler takes.
	meanwhile := func(ask func() error) {
		t.Helper()
		lab.Eventually(t, func() error {
			renew(time.Now())
			return ask()
		})
	}
	meanwhile(func() error { return holds(t, lab, "first", "8-10") })
	renew(time.Now().Add(-time.Minute))
	// The scheduler may hear of a pod before it hears of the Lease: one that never fits tells when it knows.
	submit("never", "9")
	lab.Eventually(t, func() error { return waitsWith(t, lab, "never", "isolcpu agent not ready") })
	submit("second", "5")
	lab.Eventually(t, func() error { return waitsWith(t, lab, "second", "isolcpu agent not ready") })
	if err := holds(t, lab, "first", "8-10"); err != nil {
		t.Errorf("after the agent was gone: %v", err)
	}
	meanwhile(func() error { return holds(t, lab, "second", "11-15") })
	submit("third", "1")
	meanwhile(func() error {
		return waitsWith(t, lab, "third", "insufficient isolated cpu (need 1, free 0)")
	})
	for _, note := range []publish.PodEvent{
		{Reason: "IsolatedCPUsProblem", Message: "for the test"},
		{Namespace: "quiet", Pod: "first", Reason: "IsolatedCPUsRefused", Message: "for the test"},
	} {
		if err := agent.Warn(t.Context(), &note, time.Now()); err != nil {
			t.Error(err)
		}
	}
}

// waitsWith is nil when a pod has no node, and its condition has those words.
func waitsWith(t *testing.T, lab *harness.Env, name, words string) error {
	t.Helper()
	var pod corev1.Pod
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: "quiet", Name: name}, &pod); err != nil {
		return err
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, words) {
			return nil
		}
	}
	return fmt.Errorf("pod %s is on node %q and says %+v, want %q", name, pod.Spec.NodeName, pod.Status.Conditions, words)
}

// holds is nil when a pod is on the node with isolated CPUs, with these.
func holds(t *testing.T, lab *harness.Env, name, cpus string) error {
	t.Helper()
	var pod corev1.Pod
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: "quiet", Name: name}, &pod); err != nil {
		return err
	}
	if pod.Spec.NodeName != "quiet-0" {
		return fmt.Errorf("pod %s is on %q: %+v", name, pod.Spec.NodeName, pod.Status.Conditions)
	}
	held, err := isolcpu.AssignedTo(&pod)
	if err != nil || held == nil || held.CPUs.String() != cpus {
		return fmt.Errorf("pod %s was given %+v, %v; want %s", name, held, err, cpus)
	}
	return nil
}
