package invariants

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func TestRequestCountsTheLargestMoment(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ask := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Resources: ask("1")}, {Resources: ask("2")}},
		InitContainers: []corev1.Container{
			{Resources: ask("500m"), RestartPolicy: &always}, {Resources: ask("3")},
		},
		Overhead: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}}
	if got := RequestOf(pod)[corev1.ResourceCPU]; got != 3600 {
		t.Errorf("with a sidecar of 500m and a first step of 3: %dm, want 3600m", got)
	}
	pod.Spec.InitContainers[1].Resources = ask("4")
	if got := RequestOf(pod)[corev1.ResourceCPU]; got != 4600 {
		t.Errorf("with a first step of 4: %dm, want 4600m", got)
	}
}

func TestRequirements(t *testing.T) {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"model": "T4", "count": "4"}}}
	for text, c := range map[string]struct {
		key    string
		op     corev1.NodeSelectorOperator
		values []string
		want   bool
	}{
		"in":             {"model", corev1.NodeSelectorOpIn, []string{"P100", "T4"}, true},
		"not in":         {"model", corev1.NodeSelectorOpNotIn, []string{"T4"}, false},
		"not in, absent": {"zone", corev1.NodeSelectorOpNotIn, []string{"x"}, true},
		"exists":         {"zone", corev1.NodeSelectorOpExists, nil, false},
		"does not exist": {"zone", corev1.NodeSelectorOpDoesNotExist, nil, true},
		"more":           {"count", corev1.NodeSelectorOpGt, []string{"3"}, true},
		"less":           {"count", corev1.NodeSelectorOpLt, []string{"4"}, false},
		"no number":      {"model", corev1.NodeSelectorOpGt, []string{"3"}, false},
	} {
		requirement := corev1.NodeSelectorRequirement{Key: c.key, Operator: c.op, Values: c.values}
		if got := matches(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}, &n); got != c.want {
			t.Errorf("%s: %t, want %t", text, got, c.want)
		}
	}
	if matches(corev1.NodeSelectorTerm{}, &n) {
		t.Error("an empty term matches a node")
	}
}

func TestMembers(t *testing.T) {
	group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 2, Roles: []v1alpha1.Role{{Name: "launcher", MinMember: 1}}}}
	member := func(phase corev1.PodPhase) *corev1.Pod { return &corev1.Pod{Status: corev1.PodStatus{Phase: phase}} }
	leaving := member(corev1.PodRunning)
	leaving.DeletionTimestamp = new(metav1.Now())
	var m Members
	m.Add(member(corev1.PodSucceeded), "worker", true)
	m.Add(member(corev1.PodFailed), "worker", true)
	m.Add(member(corev1.PodPending), "worker", false)
	m.Add(leaving, "launcher", true)
	if got := m.Unmet(group); got != "needs 2, and 1 have a place" || m.Live != 0 {
		t.Errorf("%q, %d live", got, m.Live)
	}
	m.Add(member(corev1.PodRunning), "worker", true)
	if got := m.Unmet(group); got != "needs 1 of role launcher, and 0 have a place" || m.Live != 1 {
		t.Errorf("%q, %d live", got, m.Live)
	}
	m.Add(member(corev1.PodPending), "launcher", true)
	if got := m.Unmet(group); got != "" {
		t.Error(got)
	}
}

func TestLacks(t *testing.T) {
	list := func(cpu string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("1")}
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("2")}}}}}
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded
	on := func(*corev1.Pod) bool { return true }
	for cpu, lacks := range map[string]int{"2": 0, "1999m": 1} {
		free := Free(&corev1.Node{Status: corev1.NodeStatus{Allocatable: list(cpu)}}, []*corev1.Pod{pod, ended}, on)
		if got := free.Lacks(pod); len(got) != lacks {
			t.Errorf("%s of cpu: lacks %v of %v", cpu, got, free)
		}
	}
}

// TestFreeWithoutIsolatedCPUs: the CPU of a pod with isolated CPUs of the node is none of what the node allows, where that leaves
// them out.
func TestFreeWithoutIsolatedCPUs(t *testing.T) {
	cpu := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: cpu}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu}}}}}
	for _, tt := range []struct {
		mode, on string
		free     int64
	}{{"excluded", "n", 2000}, {"included", "n", 0}, {"excluded", "m", 0}} {
		node.Annotations = map[string]string{cpuTopology: `{"v":1,"mode":"` + tt.mode + `"}`}
		pod.Annotations = map[string]string{assignedCPUs: `{"v":1,"node":"` + tt.on + `"}`}
		if got := Free(node, []*corev1.Pod{pod}, func(*corev1.Pod) bool { return true })[corev1.ResourceCPU]; got != tt.free {
			t.Errorf("%+v: %d free", tt, got)
		}
	}
}
