package containers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/node"
)

// slot is an extended resource that bounds what a node can hold, since each node has all processors of this machine.
const slot = "lab.tutti.dev/slot"

// slots gives a node so many of the resource, for one test.
func slots(t *testing.T, env *harness.Env, name string, n int) {
	t.Helper()
	set := func(patch string) error {
		_, err := env.Clientset.CoreV1().Nodes().Patch(context.Background(), name, "application/json-patch+json", []byte(patch), metav1.PatchOptions{}, "status")
		return err
	}
	const path, allocatable = "/status/capacity/lab.tutti.dev~1slot", "/status/allocatable/lab.tutti.dev~1slot"
	if err := set(fmt.Sprintf(`[{"op":"add","path":%q,"value":"%d"}]`, path, n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The kubelet takes some time to do the second, in which the next test would have these slots.
		if err := set(fmt.Sprintf(`[{"op":"remove","path":%q},{"op":"remove","path":%q}]`, path, allocatable)); err != nil {
			t.Error(err)
		}
	})
	env.Eventually(t, func() error {
		n := &corev1.Node{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, n); err != nil {
			return err
		}
		if _, there := n.Status.Allocatable[slot]; !there {
			return fmt.Errorf("the kubelet of %s has not taken up its slots", name)
		}
		return nil
	})
}

// TestAGangOfContainersRunsToItsEnd: each member has an init container, a sidecar, and a container that fails the first time and
// is started again by the kubelet. All members are bound together and end, and the Job is complete.
func TestAGangOfContainersRunsToItsEnd(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	always := corev1.ContainerRestartPolicyAlways
	member := pod(env, ns, "", `[ -e /tmp/shared/again ] || { touch /tmp/shared/again; exit 1; }; cat /tmp/shared/first`, harness.InGroup("all")).Spec
	mount := []corev1.VolumeMount{{Name: "shared", MountPath: "/tmp/shared"}}
	member.RestartPolicy, member.Containers[0].VolumeMounts = corev1.RestartPolicyOnFailure, mount
	member.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	member.InitContainers = []corev1.Container{
		{Name: "first", Image: node.Busybox, Command: []string{"sh", "-c", "hostname >/tmp/shared/first"}, VolumeMounts: mount},
		{Name: "beside", Image: node.Busybox, Command: []string{"sh", "-c", "trap 'exit 0' TERM; sleep infinity & wait"}, RestartPolicy: &always},
	}
	three := int32(3)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "all"},
		Spec: batchv1.JobSpec{
			Parallelism: &three, Completions: &three,
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod(env, ns, "", "", harness.InGroup("all")).Labels}, Spec: member},
		},
	}
	env.Create(t, group(ns, "all", 3), job)
	env.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(job), job); err != nil {
			return err
		}
		if job.Status.Succeeded != 3 {
			return fmt.Errorf("%d of 3 pods have succeeded, %d have failed", job.Status.Succeeded, job.Status.Failed)
		}
		return nil
	})
	pods, err := env.Pods(t.Context(), ns)
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if said := logs(t, env, ns, pods[i].Name, "main"); said != pods[i].Name {
			t.Errorf("pod %s said %q, want its own name", pods[i].Name, said)
		}
		if restarts := pods[i].Status.ContainerStatuses[0].RestartCount; restarts != 1 {
			t.Errorf("pod %s has %d restarts, want 1", pods[i].Name, restarts)
		}
	}
}

// TestAVictimHasItsGrace: a container that is evicted ends in its own time, and the pod for which it is evicted is bound when the
// kubelet has said that the container is gone, not before.
func TestAVictimHasItsGrace(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	slots(t, env, "real-0", 1)
	low, high := class(t, env, 1), class(t, env, 1000)
	env.Create(t, pod(env, ns, "victim", `trap 'sleep 4; echo ended; exit 0' TERM; echo began; sleep infinity & wait`,
		harness.Requests(map[string]string{slot: "1"}), grace(60), priority(low)))
	eventuallyPod(t, env, ns, "victim", in(corev1.PodRunning))
	env.Eventually(t, func() error {
		if said := logs(t, env, ns, "victim", ""); said != "began" {
			return fmt.Errorf("the victim said %q", said)
		}
		return nil
	})
	evicted := time.Now()
	env.Create(t, pod(env, ns, "taker", `sleep infinity`, harness.Requests(map[string]string{slot: "1"}), priority(high)))
	taker := eventuallyPod(t, env, ns, "taker", func(p *corev1.Pod) error {
		if victim, err := get(t.Context(), env, ns, "victim"); err == nil && victim.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" {
			t.Error("the taker is bound while the victim's container runs")
		}
		return in(corev1.PodRunning)(p)
	})
	if waited := taker.Status.StartTime.Sub(evicted); waited < 3*time.Second {
		t.Errorf("the taker started after %s, and the victim takes 4s to end", waited)
	}
}

// TestAContainerGrowsInPlace: a pod that is resized keeps running, the kubelet says what the node really gives it, and a pod that
// no longer fits beside it waits.
func TestAContainerGrowsInPlace(t *testing.T) {
	env := lab(t)
	ns := env.Namespace(t)
	size := func(cpu string) harness.PodOption {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
	}
	env.Create(t, pod(env, ns, "grows", `sleep infinity`, onNode("real-1"), size("500m")))
	eventuallyPod(t, env, ns, "grows", in(corev1.PodRunning))
	_, err := env.Cluster.Kubectl(t.Context(), "patch", "pod", "grows", "--namespace", ns, "--subresource=resize",
		`--patch={"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"1"}}}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	grown := eventuallyPod(t, env, ns, "grows", func(p *corev1.Pod) error {
		if given := p.Status.ContainerStatuses[0].AllocatedResources.Cpu(); given.Cmp(resource.MustParse("1")) != 0 {
			return fmt.Errorf("the node gives it %s", given)
		}
		return nil
	})
	if restarts := grown.Status.ContainerStatuses[0].RestartCount; restarts != 0 {
		t.Errorf("%d restarts", restarts)
	}
	env.Create(t, pod(env, ns, "waits", `sleep infinity`, onNode("real-1"), size("1500m")))
	eventuallyPod(t, env, ns, "waits", unschedulable("cpu"))
	if err := env.Client.Delete(t.Context(), grown); err != nil {
		t.Fatal(err)
	}
	eventuallyPod(t, env, ns, "waits", in(corev1.PodRunning))
}

// unschedulable is a want of eventuallyPod: a pod that waits with a reason that has these words.
func unschedulable(words string) func(p *corev1.Pod) error {
	return func(p *corev1.Pod) error {
		for _, condition := range p.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, words) {
				return nil
			}
		}
		return fmt.Errorf("pod %s: no reason with %q: %+v", p.Name, words, p.Status.Conditions)
	}
}

// class makes a priority class of a value for one test and returns its name.
func class(t *testing.T, env *harness.Env, value int32) string {
	t.Helper()
	made := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}, Value: value}
	if err := env.Client.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Client.Delete(context.Background(), made); err != nil {
			t.Error(err)
		}
	})
	return made.Name
}
