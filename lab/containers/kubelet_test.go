package containers

import (
	"fmt"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
)

// machine is the real node of this name.
func machine(t *testing.T, env *harness.Env, name string) *node.Machine {
	t.Helper()
	for _, m := range env.Cluster.Machines() {
		if m.Name() == name {
			return m
		}
	}
	t.Fatalf("there is no machine %s", name)
	return nil
}

// TestAKubeletThatDoesNotAnswer: the members of a gang on a node whose kubelet hangs are replaced on other nodes when Kubernetes
// gives the node up, and the pods that hang in their end count for nothing there. When the kubelet goes on, it ends them, and the
// node is used again.
func TestAKubeletThatDoesNotAnswer(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	for _, name := range []string{"real-0", "real-1"} {
		slots(t, env, name, 2)
	}
	template := pod(env, ns, "", `sleep infinity`, harness.InGroup("gang"), harness.Requests(map[string]string{slot: "1"}))
	template.Labels["app"] = "gang"
	template.Spec.Tolerations = []corev1.Toleration{{
		Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](1),
	}}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gang"},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "gang"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}
	env.Create(t, group(ns, "gang", 2), set)
	running := func(on string) (names []string) {
		pods, err := env.Pods(t.Context(), ns, client.MatchingLabels{"app": "gang"})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pods {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning && (on == "" || p.Spec.NodeName == on) {
				names = append(names, p.Name)
			}
		}
		return names
	}
	env.Eventually(t, func() error {
		if got := running(""); len(got) != 2 {
			return fmt.Errorf("%v run", got)
		}
		return nil
	})
	lost, other := "real-0", "real-1"
	if len(running(lost)) == 0 {
		lost, other = other, lost
	}
	hung := machine(t, env, lost)
	if err := hung.Signal(node.Kubelet, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn := func() {
		if err := hung.Signal(node.Kubelet, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(goesOn)
	env.Eventually(t, func() error {
		if got := running(other); len(got) != 2 {
			return fmt.Errorf("%v run on %s", got, other)
		}
		return nil
	})
	goesOn()
	env.Eventually(t, func() error {
		pods, err := env.Pods(t.Context(), ns)
		if err == nil && len(pods) != 2 {
			err = fmt.Errorf("%d pods", len(pods))
		}
		return err
	})
	env.Create(t, pod(env, ns, "again", `sleep infinity`, onNode(lost), harness.Requests(map[string]string{slot: "2"})))
	eventuallyPod(t, env, ns, "again", in(corev1.PodRunning))
}

// TestAKubeletThatIsKilled: the containers run on without it, and it takes them over when it is back.
func TestAKubeletThatIsKilled(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	env.Create(t, pod(env, ns, "lasts", `sleep infinity`, onNode("real-1")))
	before := eventuallyPod(t, env, ns, "lasts", in(corev1.PodRunning))
	m := machine(t, env, "real-1")
	for _, program := range []string{node.Kubelet, node.Containerd} {
		if err := m.Kill(program); err != nil {
			t.Fatal(err)
		}
		if err := m.StartProgram(t.Context(), program); err != nil {
			t.Fatal(err)
		}
	}
	env.Create(t, pod(env, ns, "later", `sleep infinity`, onNode("real-1")))
	eventuallyPod(t, env, ns, "later", in(corev1.PodRunning))
	after := eventuallyPod(t, env, ns, "lasts", in(corev1.PodRunning))
	if a, b := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]; a.ContainerID != b.ContainerID || b.RestartCount != 0 {
		t.Errorf("the container %s with %d restarts is now %s", a.ContainerID, b.RestartCount, b.ContainerID)
	}
}

// TestAKubeletThatRefusesAMember: a kubelet admits less than its node said when the gang was bound, and refuses a member with
// OutOfcpu. That pod has failed, and its Job makes another one. The members that run keep running, and the new one joins them
// when the node has capacity for it, which the kubelet says some seconds later.
func TestAKubeletThatRefusesAMember(t *testing.T) {
	env := lab(t)
	for range 10 { // until the kubelet reads of its node before it reads of the pods
		if refuses(t, env) {
			return
		}
	}
	t.Error("the kubelet admitted all members each time")
}

// refuses plays it once and reports whether a member was refused.
func refuses(t *testing.T, env *harness.Env) bool {
	t.Helper()
	ns := env.Namespace(t)
	m := machine(t, env, "real-1")
	member := pod(env, ns, "", `sleep infinity`, harness.InGroup("gang"), onNode(m.Name()))
	member.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
	member.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gang"},
		Spec: batchv1.JobSpec{
			// The kubelet may refuse several times, until it has written what it has.
			Parallelism: ptr.To[int32](4), Completions: ptr.To[int32](4), BackoffLimit: ptr.To[int32](100),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: member.Labels}, Spec: member.Spec},
		},
	}
	signal := func(s syscall.Signal) {
		if err := m.Signal(node.Kubelet, s); err != nil {
			t.Error(err)
		}
	}
	env.Eventually(t, func() error { // the kubelet has written what it has since the play before
		n := &corev1.Node{}
		err := env.Client.Get(t.Context(), client.ObjectKey{Name: m.Name()}, n)
		if err == nil && n.Status.Allocatable.Cpu().Value() < 2 {
			err = fmt.Errorf("%s has %s CPUs", m.Name(), n.Status.Allocatable.Cpu())
		}
		return err
	})
	signal(syscall.SIGSTOP)
	t.Cleanup(func() { signal(syscall.SIGCONT) })
	env.Create(t, group(ns, "gang", 4), job)
	bound, running, refused := 0, 0, 0
	count := func() {
		t.Helper()
		pods, err := env.Pods(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		bound, running, refused = 0, 0, 0
		for _, p := range pods {
			switch {
			case p.Status.Reason == "OutOfcpu":
				refused++
			case p.Status.Phase == corev1.PodRunning:
				running++
			case p.Spec.NodeName != "":
				bound++
			}
		}
	}
	env.Eventually(t, func() error {
		if count(); bound != 4 {
			return fmt.Errorf("%d of 4 are bound", bound)
		}
		return nil
	})
	// The kubelet admits by the node that it reads, and writes what it has itself after some seconds.
	_, err := env.Clientset.CoreV1().Nodes().Patch(t.Context(), m.Name(), "application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/status/allocatable/cpu","value":"1"}]`), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Fatal(err)
	}
	signal(syscall.SIGCONT)
	env.Eventually(t, func() error {
		if count(); running != 4 {
			return fmt.Errorf("%d run, %d are refused", running, refused)
		}
		return nil
	})
	t.Logf("%d members were refused", refused)
	if err := env.Client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	return refused > 0
}
