package isolcpu_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// TestKubeletAdmitsWhatIsBound gives what was bound, in any order, to the check that a kubelet makes before it starts a pod.
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
			h.admitAll(c.allocatable)
		})
	}
}

// admitAll plays the kubelet of the node.
func (h *house) admitAll(allocatable string) {
	h.t.Helper()
	var names []types.UID
	for uid := range h.coming {
		names = append(names, uid)
	}
	slices.Sort(names)
	var admitted []*corev1.Pod
	for _, uid := range names {
		h.confirm(uid)
		node := kubeframework.NewNodeInfo(admitted...)
		node.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(allocatable), corev1.ResourcePods: resource.MustParse("110"),
		}}})
		if results := scheduler.AdmissionCheck(h.pods[uid], node, true); len(results) > 0 {
			h.t.Errorf("the kubelet does not admit %s: %+v", uid, results[0])
			continue
		}
		admitted = append(admitted, h.pods[uid])
	}
}

// TestBothDirectionsOfFit: a full pool says nothing about the other.
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

// TestQualityOfServiceIsUntouched: a pod that was bound with isolated CPUs is what its twin without the annotation is.
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
