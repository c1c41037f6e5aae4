package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

var amountsOf = map[corev1.ResourceName][]string{
	"cpu":               {"0", "1m", "100m", "1500m", "3", "0.0001"},
	"memory":            {"0", "1", "128Mi", "1.5Gi", "1500m"},
	"ephemeral-storage": {"0", "1Gi"},
	"nvidia.com/gpu":    {"0", "1", "8"},
	"hugepages-2Mi":     {"0", "2Mi", "64Mi"},
}

func drawList(t *rapid.T, label string) corev1.ResourceList {
	names := []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"}
	var l corev1.ResourceList
	for _, name := range names {
		if rapid.IntRange(0, 2).Draw(t, label+" has "+string(name)) == 0 {
			continue
		}
		if l == nil {
			l = corev1.ResourceList{}
		}
		l[name] = resource.MustParse(rapid.SampledFrom(amountsOf[name]).Draw(t, label+" "+string(name)))
	}
	return l
}

func drawContainers(t *rapid.T, kind string, least, most int) (containers []corev1.Container, statuses []corev1.ContainerStatus) {
	always := corev1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(least, most).Draw(t, kind) {
		name := fmt.Sprintf("%s%d", kind, i)
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: drawList(t, name)}}
		if kind == "init" && rapid.Bool().Draw(t, name+" is a sidecar") {
			c.RestartPolicy = &always
		}
		if rapid.IntRange(0, 3).Draw(t, name+" is resized") == 0 {
			granted := corev1.ResourceRequirements{Requests: drawList(t, name+" granted")}
			statuses = append(statuses, corev1.ContainerStatus{
				Name: name, AllocatedResources: drawList(t, name+" allocated"), Resources: &granted,
			})
		}
		containers = append(containers, c)
	}
	return containers, statuses
}

// drawPodWithRequests leaves out what kube-scheduler itself counts twice: see TestLookingAtAPodDoesNotChangeIt.
func drawPodWithRequests(t *rapid.T) *corev1.Pod {
	p := pod("p", on("n"))
	p.Spec.Containers, p.Status.ContainerStatuses = drawContainers(t, "main", 1, 3)
	p.Spec.InitContainers, p.Status.InitContainerStatuses = drawContainers(t, "init", 0, 3)
	if rapid.Bool().Draw(t, "overhead") {
		p.Spec.Overhead = drawList(t, "overhead")
	}
	if rapid.Bool().Draw(t, "pod level") {
		p.Spec.Resources = wholeUnits(&corev1.ResourceRequirements{Requests: drawList(t, "pod level")})
	}
	if rapid.Bool().Draw(t, "pod status") {
		p.Status.Resources = wholeUnits(&corev1.ResourceRequirements{Requests: drawList(t, "pod granted")})
		p.Status.AllocatedResources = plainList(drawList(t, "pod allocated"))
	}
	if rapid.Bool().Draw(t, "infeasible") {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
	}
	return p
}

// What a pod takes is what kube-scheduler says it takes, also after stripping; likewise what scores count.
func TestRequestsAreKubeSchedulers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Options{})
		s.Apply(seen(node("n", "nvidia.com/gpu", "1", "hugepages-2Mi", "2Mi")))
		p := drawPodWithRequests(t)
		info := framework.NewNodeInfo(p.DeepCopy())
		want, counted := info.Requested, info.NonZeroRequested
		for name, p := range map[string]*corev1.Pod{"whole": p, "stripped": StripPod(p)} {
			got, _, refusal := s.request(&model.Task{Pod: p})
			if refusal != nil {
				t.Fatalf("%s pod refused: %s", name, refusal)
			}
			for resource, amount := range map[corev1.ResourceName]int64{
				"cpu": want.MilliCPU, "memory": want.Memory, "ephemeral-storage": want.EphemeralStorage, "pods": 1,
				"nvidia.com/gpu": want.ScalarResources["nvidia.com/gpu"], "hugepages-2Mi": want.ScalarResources["hugepages-2Mi"],
			} {
				if has := got.At(s.dimensions.Index(resource)); has != amount {
					t.Fatalf("%s pod takes %d of %s, kube-scheduler says %d", name, has, resource, amount)
				}
			}
			supposed := nonZeroDefaultsOf(p)
			if cpu, memory := want.MilliCPU+supposed[model.CPU], want.Memory+supposed[model.Memory]; cpu != counted.MilliCPU || memory != counted.Memory {
				t.Fatalf("%s pod counts as %d and %d, kube-scheduler says %d and %d", name, cpu, memory, counted.MilliCPU, counted.Memory)
			}
		}
	})
}

// TestLookingAtAPodDoesNotChangeIt: kube-scheduler's own count adds the overhead to the pod that it reads. Ours must not, and a
// stripped pod must not let it.
func TestLookingAtAPodDoesNotChangeIt(t *testing.T) {
	p := pod("p", on("n"))
	p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory", "1.5Gi")}
	p.Spec.Overhead = list("memory", "128Mi")
	stripped, want := StripPod(p), int64(1536+128)<<20
	for range 3 {
		if got, _, _ := New(Options{}).request(&model.Task{Pod: p}); got.At(model.Memory) != want {
			t.Fatalf("the pod takes %d, want %d", got.At(model.Memory), want)
		}
		if got := framework.NewNodeInfo(stripped).Requested.Memory; got != want {
			t.Fatalf("kube-scheduler counts %d, want %d", got, want)
		}
	}
}

// A request that cannot be counted is refused and fills its node; it never wraps around.
func TestRequestsThatOverflow(t *testing.T) {
	for name, amounts := range map[string][]string{
		"one": {"9223372036854775807"}, "two": {"9223372036854775807", "9223372036854775807"},
		"back to zero": {"9223372036854775807", "9223372036854775807", "2"}, "just over": {"1125899906842624", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod("p")
			p.Spec.Containers = nil
			for _, amount := range amounts {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: requesting("memory", amount)})
			}
			got, _, refusal := New(Options{}).request(&model.Task{Pod: p})
			if refusal == nil || refusal.Code != model.InvalidRequest || got.At(model.Memory) != model.MaxAmount {
				t.Errorf("takes %v, refused %v", got, refusal)
			}
		})
	}
}
