package cluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// tripping panics over pods and nodes with a label.
type tripping struct{}

func (tripping) TranslateRequest(_ *model.ResourceIndex, pod *corev1.Pod, _ *model.Resources) *model.Refusal {
	return trip(pod.Labels)
}

func (tripping) TranslateCapacity(_ *model.ResourceIndex, node *corev1.Node, _ *model.Resources) *model.Refusal {
	return trip(node.Labels)
}

func trip(labels map[string]string) *model.Refusal {
	if labels["trip"] == "" {
		return nil
	}
	var unowned *model.Refusal
	return unowned.WithNote("the end")
}

func tripOver(p *corev1.Pod) {
	p.Labels = map[string]string{"trip": "x"}
	p.ResourceVersion = "2"
}

func TestPanicOverAPodCostsItAlone(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, Translators: []model.RequestTranslator{tripping{}}})
	apply := func(p *corev1.Pod) Effect { return s.Apply(Event{Kind: KindPod, Pod: p}) }
	s.Apply(Event{Kind: KindNode, Node: node("n")})
	apply(pod("good"))
	apply(pod("bound"))
	snap(t, s, start)
	s.Assume(model.Decision{Job: model.JobKey{Namespace: "ns", Name: "bound", IsPod: true}, Binds: []model.Bind{
		{Pod: model.PodRef{UID: "bound", Namespace: "ns", Name: "bound"}, Node: "n"}}})
	for _, name := range []string{"bad", "bound"} {
		effect := apply(pod(name, tripOver))
		want := "pod ns/" + name + " could not be read: runtime error: invalid memory address or nil pointer dereference"
		if effect.Malformed != want || name == "bad" && !effect.Schedule {
			t.Errorf("%s: effect %+v", name, effect)
		}
	}
	snapshot := snap(t, s, start)
	if bad := taskIn(snapshot, "bad"); bad == nil || bad.Invalid == nil || bad.Invalid.Code != model.Malformed ||
		bad.Job != (model.JobKey{Namespace: "ns", Name: "bad", IsPod: true}) {
		t.Errorf("the malformed pod is %+v", bad)
	}
	if good := taskIn(snapshot, "good"); good.Invalid != nil || snapshot.Job(good.Job).Invalid != nil {
		t.Errorf("another pod is refused: %v", good.Invalid)
	}
	if bound := taskIn(snapshot, "bound"); bound.Status != model.Binding || snapshot.Node("n").Idle.At(model.CPU) != 9000 {
		t.Errorf("what was assumed of a pod is forgotten with its text: %v, idle %v", bound.Placement, snapshot.Node("n").Idle)
	}
	s.Translate([]model.RequestTranslator{tripping{}})
	if bad := taskIn(snap(t, s, start), "bad"); bad.Invalid == nil {
		t.Error("what is left of the pod was taken for a pod")
	}
	if effect := apply(pod("bad", func(p *corev1.Pod) { p.ResourceVersion = "3" })); effect.Malformed != "" || !effect.Schedule {
		t.Errorf("mended: %+v", effect)
	}
	if bad := taskIn(snap(t, s, start), "bad"); bad.Invalid != nil {
		t.Errorf("mended, and refused: %v", bad.Invalid)
	}
}

func TestPanicOverANodeCostsItAlone(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, Translators: []model.RequestTranslator{tripping{}}})
	s.Apply(Event{Kind: KindNode, Node: node("n")})
	bad := node("bad")
	bad.Labels = map[string]string{"trip": "x"}
	if effect := s.Apply(Event{Kind: KindNode, Node: bad}); !strings.HasPrefix(effect.Malformed, "node bad could not be read: ") {
		t.Errorf("effect %+v", effect)
	}
	snapshot := snap(t, s, start)
	if refused := snapshot.Node("bad").Invalid; refused == nil || !strings.HasPrefix(refused.Detail, "the node could not be read: ") {
		t.Errorf("refused: %v", refused)
	}
	if snapshot.Node("n").Invalid != nil || snapshot.Node("n").Idle.At(model.CPU) != 10000 {
		t.Errorf("another node: %+v", snapshot.Node("n"))
	}
}

func TestPanicOverAGroupCostsItAlone(t *testing.T) {
	s := newState(node("n"), pod("p", of("g")), pod("q", of("h")))
	for _, name := range []string{"g", "h"} {
		group := &v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}
		group.Namespace, group.Name, group.ResourceVersion = "ns", name, "1"
		s.Apply(Event{Kind: KindGroup, Group: group})
	}
	// Nothing that reads a group is known to panic.
	s.recordUnreadable(Event{Kind: KindGroup, Group: s.groups[model.JobKey{Namespace: "ns", Name: "g"}]}, "why not")
	snapshot := snap(t, s, start)
	refusal := func(name string) *model.Refusal {
		return snapshot.Job(model.JobKey{Namespace: "ns", Name: name}).Invalid
	}
	if got := refusal("g"); got == nil || got.Code != model.Malformed || got.Detail != "PodGroup ns/g could not be read: why not" {
		t.Errorf("refused: %v", got)
	}
	if got := refusal("h"); got != nil {
		t.Errorf("another group is refused: %v", got)
	}
}
