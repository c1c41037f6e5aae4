package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

func requestsNames(prefix string, names int) podOption {
	return func(p *corev1.Pod) {
		requests := corev1.ResourceList{}
		for i := range names {
			requests[corev1.ResourceName(fmt.Sprintf("%s/r%d", prefix, i))] = resource.MustParse("2")
		}
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}}
	}
}

// TestWhatOnlyPodsNameCostsNoDimension: names that users invent make no vector of a node longer, whether their pods wait, are on
// a node or belong to another scheduler.
func TestWhatOnlyPodsNameCostsNoDimension(t *testing.T) {
	s := newState()
	for i := range 10 {
		s.Apply(seen(node(fmt.Sprintf("n%d", i), "cpu", "4", "pods", "10")))
	}
	s.Snapshot(start)
	before := s.dimensions.Len()
	for i := range 20 {
		s.Apply(seen(pod(fmt.Sprintf("waits%d", i), requestsNames(fmt.Sprintf("a%d.example", i), 60))))
		s.Apply(seen(pod(fmt.Sprintf("bound%d", i), requestsNames(fmt.Sprintf("b%d.example", i), 60), on("n1"))))
		s.Apply(seen(pod(fmt.Sprintf("other%d", i), requestsNames(fmt.Sprintf("c%d.example", i), 60), on("n2"), func(p *corev1.Pod) {
			p.Spec.SchedulerName = "default-scheduler"
		})))
	}
	s.Apply(seen(pod("greedy", requestsNames("d.example", 20_000))))
	snapshot := s.Snapshot(start)
	if after := s.dimensions.Len(); after != before {
		t.Errorf("%d dimensions, there were %d before the pods", after, before)
	}
	if width := len(snapshot.Node("n1").Amounts().Idle); width != before {
		t.Errorf("the vectors of a node have %d dimensions, want %d", width, before)
	}
	refused := s.pods.record("greedy").task.Invalid
	if want := "pod ns/greedy requests 20000 resources, more than 64"; refused.String() != want {
		t.Errorf("refused with %q, want %q", refused, want)
	}
}

// TestAResourceIsOfferedLater: a pod that waits for a resource, and one that is already on a node, count it from when on the
// first node offers it until the last one ceases to.
func TestAResourceIsOfferedLater(t *testing.T) {
	s := newState()
	gpus := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Name: "c", Resources: requesting("nvidia.com/gpu", "2")}}
	}
	s.Apply(seen(pod("p", gpus)))
	s.Apply(seen(pod("q", gpus, on("n"))))
	reads := func(when string, want int64) {
		t.Helper()
		s.Snapshot(start)
		position, _ := s.dimensions.Find("nvidia.com/gpu")
		for _, name := range []string{"p", "q"} {
			request := s.pods.record(types.UID(name)).task.Request
			if has := request.At(max(position, model.Unoffered)); position > 0 && has != want {
				t.Errorf("%s: %s requests %d GPUs, want %d", when, name, has, want)
			}
		}
		asksInVain := s.pods.record("p").task.Request.At(model.Unoffered) == 1
		if asksInVain == (want > 0) || s.pods.record("q").task.Request.At(model.Unoffered) != 0 {
			t.Errorf("%s: p asks for what no node offers: %v; q counts it", when, asksInVain)
		}
	}
	reads("at first", 0)
	s.Apply(seen(node("n", "cpu", "4", "pods", "10")))
	reads("with a node without GPUs", 0)
	s.Apply(seen(node("m", "cpu", "4", "pods", "10", "nvidia.com/gpu", "8")))
	reads("with a node that has GPUs", 2)
	s.Apply(&NodeSeen{Node: node("m"), Gone: true})
	reads("when that node is gone", 0)
}
