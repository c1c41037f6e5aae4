package isolcpu_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestKubeletAdmitsWhatIsBound runs the kubelet's admission check for the bound pods, in any order.
func TestKubeletAdmitsWhatIsBound(t *testing.T) {
	for _, c := range []struct {
		name, allocatable  string
		mode               isolated.Mode
		isolated, ordinary int
		bound              int
	}{
		{"both kinds, isolated CPUs counted", "14", isolated.Included, 9, 7, 14},
		{"isolated ones alone", "14", isolated.Included, 9, 0, 8},
		{"ordinary ones alone", "14", isolated.Included, 0, 14, 6},
		{"both kinds, not counted", "6", isolated.Excluded, 3, 5, 6},
		{"isolated ones alone, not counted", "6", isolated.Excluded, 9, 0, 6},
		{"ordinary ones alone, not counted", "6", isolated.Excluded, 0, 7, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(t)
			h.node(c.allocatable, "8-11", "12-15", c.mode)
			for i := range max(c.isolated, c.ordinary) { // in turns
				if i < c.isolated {
					h.tell(newPod(fmt.Sprintf("i-%d", i), "1", isolated.RequestAnnotation, "true"))
				}
				if i < c.ordinary {
					h.tell(newPod(fmt.Sprintf("o-%d", i), "1"))
				}
			}
			h.place()
			if len(h.coming) != c.bound {
				t.Errorf("%d are bound, want %d", len(h.coming), c.bound)
			}
			admitted := h.admitAll(c.allocatable)
			if c.mode == isolated.Excluded && len(admissionOf(newPod("one-more", "1"), admitted, c.allocatable)) == 0 {
				t.Error("the kubelet admits one more, for which there is no capacity")
			}
		})
	}
}

// admitAll plays the kubelet of the node, and returns the pods it admits.
func (h *house) admitAll(allocatable string) (admitted []*corev1.Pod) {
	h.t.Helper()
	var names []types.UID
	for uid := range h.coming {
		names = append(names, uid)
	}
	slices.Sort(names)
	for _, uid := range names {
		h.confirm(uid)
		if results := admissionOf(h.pods[uid], admitted, allocatable); len(results) > 0 {
			h.t.Errorf("the kubelet does not admit %s: %+v", uid, results[0])
			continue
		}
		admitted = append(admitted, h.pods[uid])
	}
	return admitted
}

// TestWhatAKubeletCounts is the reason for the two modes: the kubelet adds up the requests of all pods and compares them with
// allocatable CPU, whatever CPUs they run on. A scheduler that distinguished two pools where allocatable does not count both
// would have pods refused.
func TestWhatAKubeletCounts(t *testing.T) {
	for _, c := range []struct {
		allocatable        string
		isolated, ordinary int
		// admittedIsolated and admittedOrdinary are the pods of each kind.
		admittedIsolated, admittedOrdinary int
		refusal                            string
	}{
		{"14", 8, 6, 8, 6, ""},
		{"6", 8, 6, 6, 0, "requested=1000 used=6000 capacity=6000"},
		{"6", 3, 4, 3, 3, "requested=1000 used=6000 capacity=6000"},
		{"14", 0, 14, 0, 14, ""},
		{"14", 8, 7, 8, 6, "requested=1000 used=14000 capacity=14000"},
	} {
		var admitted []*corev1.Pod
		counts, refusals := [2]int{}, []string{}
		for i := range c.isolated + c.ordinary {
			kind, pod := 0, newPod(fmt.Sprintf("p-%d", i), "1", isolated.RequestAnnotation, "true")
			if i >= c.isolated {
				kind, pod = 1, newPod(fmt.Sprintf("p-%d", i), "1")
			}
			results := admissionOf(pod, admitted, c.allocatable)
			if len(results) == 0 {
				admitted, counts[kind] = append(admitted, pod), counts[kind]+1
				continue
			}
			lack := results[0].InsufficientResource
			refusals = append(refusals, fmt.Sprintf("requested=%d used=%d capacity=%d", lack.Requested, lack.Used, lack.Capacity))
		}
		if counts != [2]int{c.admittedIsolated, c.admittedOrdinary} || (len(refusals) > 0) != (c.refusal != "") ||
			slices.ContainsFunc(refusals, func(said string) bool { return said != c.refusal }) {
			t.Errorf("allocatable %s, %d and %d: admits %v, and says %q; want %d and %d, %q", c.allocatable, c.isolated, c.ordinary,
				counts, refusals, c.admittedIsolated, c.admittedOrdinary, c.refusal)
		}
	}
}

// admissionOf is the kubelet's refusal of a pod beside others.
func admissionOf(pod *corev1.Pod, others []*corev1.Pod, allocatable string) []scheduler.AdmissionResult {
	node := kubeframework.NewNodeInfo(others...)
	node.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(allocatable), corev1.ResourcePods: resource.MustParse("110"),
	}}})
	return scheduler.AdmissionCheck(pod, node, true)
}

// TestBothDirectionsOfFit: a full pool does not affect the other.
func TestBothDirectionsOfFit(t *testing.T) {
	h := newHouse(t)
	for i := range 6 {
		h.tell(newPod(fmt.Sprintf("o-%d", i), "1"))
	}
	h.place()
	h.tell(newPod("i", "2", isolated.RequestAnnotation, "true"))
	h.place()
	if len(h.coming) != 7 {
		t.Errorf("%d are bound, want all seven: the isolated pod needs no ordinary CPU", len(h.coming))
	}
	h.admitAll("14")
}

// TestQualityOfServiceIsUntouched: a pod bound with isolated CPUs has the class of the same pod without the annotation.
func TestQualityOfServiceIsUntouched(t *testing.T) {
	for limits, want := range map[string]corev1.PodQOSClass{"cpu=2,memory=1Gi": corev1.PodQOSGuaranteed, "memory=1Gi": corev1.PodQOSBurstable} {
		pod, twin := newPod("p", "2", isolated.RequestAnnotation, "true"), newPod("q", "2")
		for _, one := range []*corev1.Pod{pod, twin} {
			resources := &one.Spec.Containers[0].Resources
			resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
			resources.Limits = corev1.ResourceList{}
			for limit := range strings.SplitSeq(limits, ",") {
				name, amount, _ := strings.Cut(limit, "=")
				resources.Limits[corev1.ResourceName(name)] = resource.MustParse(amount)
			}
		}
		h := newHouse(t)
		h.roomy()
		h.tell(pod)
		h.place()
		h.confirm("p")
		if got := qos.ComputePodQOS(h.pods["p"]); got != want || got != qos.ComputePodQOS(twin) {
			t.Errorf("with limits %s it is %s, want %s", limits, got, want)
		}
	}
}

// roomy gives the node memory, too.
func (h *house) roomy() {
	h.memoryOf = "8Gi"
	h.node("14", "8-11", "12-15", isolated.Included)
}

// TestQualityOfServiceOfAnyShape binds pods of all kinds, one after the other, and compares each with a copy without
// annotations.
func TestQualityOfServiceOfAnyShape(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	classes := map[corev1.PodQOSClass]int{}
	for i := range 500 {
		h := newHouse(t)
		h.roomy()
		pod := anyShape(random, fmt.Sprintf("p-%d", i))
		twin := pod.DeepCopy()
		twin.Annotations = nil
		h.tell(pod)
		h.place()
		if len(h.coming) != 1 {
			t.Fatalf("%+v is not bound", pod.Spec)
		}
		h.confirm(pod.UID)
		bound := h.pods[pod.UID]
		if got, want := qos.ComputePodQOS(bound), qos.ComputePodQOS(twin); got != want {
			t.Errorf("%+v is %s, its twin %s", pod.Spec, got, want)
		}
		if !equality.Semantic.DeepEqual(bound.Spec.Containers, twin.Spec.Containers) ||
			!equality.Semantic.DeepEqual(bound.Spec.InitContainers, twin.Spec.InitContainers) {
			t.Errorf("the specification of %s was changed", pod.Name)
		}
		classes[qos.ComputePodQOS(bound)]++
	}
	if len(classes) != 2 || classes[corev1.PodQOSGuaranteed] == 0 { // a pod with a CPU request is never best effort
		t.Errorf("they are %v, want some of both classes", classes)
	}
}

// anyShape is a pod with containers of all kinds, some of them on isolated CPUs, with limits and without.
func anyShape(random *rand.Rand, name string) *corev1.Pod {
	pod := newPod(name, "1", isolated.RequestAnnotation, "main")
	always, limited := corev1.ContainerRestartPolicyAlways, random.IntN(2) == 0
	selected := []string{"main"}
	for i := range random.IntN(4) {
		c := *pod.Spec.Containers[0].DeepCopy()
		c.Name = fmt.Sprintf("c-%d", i)
		if random.IntN(3) == 0 {
			c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("250m")
		} else if random.IntN(2) == 0 {
			selected = append(selected, c.Name)
		}
		switch random.IntN(3) {
		case 0:
			c.RestartPolicy = &always
			fallthrough
		case 1:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			resources := &containers[i].Resources
			resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Mi")
			if limited || random.IntN(2) == 0 {
				resources.Limits = resources.Requests.DeepCopy()
			}
		}
	}
	pod.Annotations[isolated.RequestAnnotation] = strings.Join(selected, ",")
	return pod
}

// TestDiscardRestoresTheIDs: a statement that evicts, nominates and places, and is then discarded, restores the ids of every
// pod.
func TestDiscardRestoresTheIDs(t *testing.T) {
	h := newHouse(t)
	low, high := int32(0), int32(100)
	for i := range 4 {
		pod := newPod(fmt.Sprintf("v-%d", i), "2", isolated.RequestAnnotation, "true")
		pod.Spec.Priority = &low
		h.tell(pod)
	}
	h.place()
	for uid := range h.coming {
		h.confirm(uid)
	}
	pod := newPod("p", "4", isolated.RequestAnnotation, "true", isolated.NUMAAnnotation, string(isolated.NUMARequired))
	pod.Spec.Priority = &high
	h.tell(pod)
	who := func() map[types.UID]isolated.CPUSet {
		held := map[types.UID]isolated.CPUSet{}
		for _, task := range h.state.Snapshot(h.now).Node("a").Tasks {
			held[task.UID] = task.Isolated.CPUs
		}
		return held
	}
	before := who()
	h.session(func(s *engine.Session) {
		s.Try(func(statement *engine.Statement) *model.Refusal {
			node := s.Snapshot.Node("a")
			for _, task := range slices.Clone(node.Tasks) {
				statement.Evict(task)
			}
			job := s.Snapshot.Job(model.JobKey{Namespace: "default", Name: "p", Source: model.SourcePod})
			if refusal := statement.Put(s.Ask(job, model.FutureIdle), job.Tasks[0], node); refusal != nil {
				t.Errorf("no nomination: %s", refusal)
			}
			return &model.Refusal{}
		})
		if free := s.Snapshot.Node("a").HeldCPUs(true); free.Len() != 8 {
			t.Errorf("after it was discarded %s are held, want all", free)
		}
	})
	if after := who(); !maps.Equal(before, after) || len(after) != 4 {
		t.Errorf("pods held %v, and now %v", before, after)
	}
	if ordinary, count, _ := h.idle(); ordinary != 6000 || count != 0 {
		t.Errorf("idle %dm and %d isolated, want 6000m and 0", ordinary, count)
	}
}
