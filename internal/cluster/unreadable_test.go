package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// tripping panics over pods and nodes with a label.
type tripping struct{}

func (tripping) Counts() []corev1.ResourceName { return nil }

func (tripping) TranslateRequest(_ *model.ResourceIndex, task *model.Task, _ *model.Resources) *model.Refusal {
	return trip(task.Pod.Labels)
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
	apply := func(p *corev1.Pod) Effect { return s.Apply(&PodSeen{Pod: p}) }
	s.Apply(&NodeSeen{Node: node("n")})
	apply(pod("good"))
	apply(pod("bound"))
	snap(t, s, start)
	s.Assume(model.Decision{Job: model.JobKey{Namespace: "ns", Name: "bound", Source: model.SourcePod}, Binds: []model.Bind{
		{Pod: model.PodRef{UID: "bound", Namespace: "ns", Name: "bound"}, Node: "n"}}})
	for _, name := range []string{"bad", "bound"} {
		effect := apply(pod(name, tripOver))
		want := "pod ns/" + name + " could not be read: runtime error: invalid memory address or nil pointer dereference"
		if malformed := s.TakeMalformed(); !slices.Equal(malformed, []string{want}) || name == "bad" && !effect.Schedule {
			t.Errorf("%s: effect %+v, malformed %q", name, effect, malformed)
		}
	}
	snapshot := snap(t, s, start)
	if bad := taskIn(snapshot, "bad"); bad == nil || bad.Invalid == nil || bad.Invalid.Code != model.Malformed ||
		bad.Job != (model.JobKey{Namespace: "ns", Name: "bad", Source: model.SourcePod}) {
		t.Errorf("the malformed pod is %+v", bad)
	}
	if good := taskIn(snapshot, "good"); good.Invalid != nil || snapshot.Job(good.Job).Invalid != nil {
		t.Errorf("another pod is refused: %v", good.Invalid)
	}
	if bound := taskIn(snapshot, "bound"); bound.Status != model.Binding || snapshot.Node("n").Idle(model.CPU) != 9000 {
		t.Errorf("what was assumed of a pod is forgotten with its text: %v, idle %v", bound.Placement, snapshot.Node("n").Amounts().Idle)
	}
	s.Configure([]model.RequestTranslator{tripping{}}, model.DefaultMaxGrace)
	if bad := taskIn(snap(t, s, start), "bad"); bad.Invalid == nil {
		t.Error("what is left of the pod was taken for a pod")
	}
	if s.Forget("bound"); taskIn(snap(t, s, start), "bound").Invalid == nil {
		t.Error("what is left of the pod was taken for a pod as its bind was taken back")
	}
	mended := apply(pod("bad", func(p *corev1.Pod) { p.ResourceVersion = "3" }))
	if malformed := s.TakeMalformed(); len(malformed) > 0 || !mended.Schedule {
		t.Errorf("mended: %+v, malformed %q", mended, malformed)
	}
	if bad := taskIn(snap(t, s, start), "bad"); bad.Invalid != nil {
		t.Errorf("mended, and refused: %v", bad.Invalid)
	}
}

func TestPanicOverANodeCostsItAlone(t *testing.T) {
	s := New(Options{SchedulerNames: []string{"tutti"}, Translators: []model.RequestTranslator{tripping{}}})
	s.Apply(&NodeSeen{Node: node("n")})
	bad := node("bad")
	bad.Labels = map[string]string{"trip": "x"}
	s.Apply(&NodeSeen{Node: bad})
	if malformed := s.TakeMalformed(); len(malformed) != 1 || !strings.HasPrefix(malformed[0], "node bad could not be read: ") {
		t.Errorf("malformed %q", malformed)
	}
	s.Configure([]model.RequestTranslator{tripping{}}, model.DefaultMaxGrace)
	snapshot := snap(t, s, start)
	if refused := snapshot.Node("bad").Invalid; refused == nil || refused.Code != model.NodesFiltered || !strings.HasPrefix(refused.Detail, "node bad could not be read: ") {
		t.Errorf("refused: %v", refused)
	}
	if snapshot.Node("n").Invalid != nil || snapshot.Node("n").Idle(model.CPU) != 10000 {
		t.Errorf("another node: %+v", snapshot.Node("n"))
	}
}

// panicOver makes the code panic that reads an object, or brings it into the snapshot.
func panicOver(s *State, object identity) {
	s.guard.probe = func(one identity) {
		if one == object {
			_ = s.snapshot.Nodes[len(s.snapshot.Nodes)]
		}
	}
}

// withBad is a cluster with a gang, a node and a pod named bad, and others that are fine.
func withBad(t *testing.T) *State {
	t.Helper()
	s := newState(node("n"), node("bad"), pod("good", on("n")), pod("bad", on("n")), pod("other", of("bad")), pod("mine", of("good")),
		group("bad", 1), group("good", 1))
	s.View()
	return s
}

// changeBad brings newer versions of the objects of that name.
func changeBad(s *State, version int) {
	n, g := node("bad"), group("bad", 1)
	n.ResourceVersion, g.ResourceVersion = fmt.Sprint(version), fmt.Sprint(version)
	for _, object := range []any{pod("bad", on("n"), label("x", "y"), revised(version)), n, g} {
		s.Apply(seen(object))
	}
}

// TestPanicOverOneObject costs only that object, whether it comes as the object is read or as the snapshot is brought up to date
// with it, for the first time or later.
func TestPanicOverOneObject(t *testing.T) {
	for _, object := range []identity{{kindPod, "ns", "bad"}, {kindNode, "", "bad"}, {kindGroup, "ns", "bad"}} {
		for name, play := range map[string]func(*State){
			"read":                  func(s *State) { panicOver(s, object); changeBad(s, 7) },
			"first snapshot":        func(s *State) { panicOver(s, object) },
			"later snapshot":        func(s *State) { snap(t, s, start); changeBad(s, 7); panicOver(s, object) },
			"again, while it lasts": func(s *State) { panicOver(s, object); snap(t, s, start); changeBad(s, 7) },
		} {
			t.Run(object.String()+"/"+name, func(t *testing.T) {
				s := withBad(t)
				play(s)
				snapshot := snap(t, s, start)
				malformed := s.TakeMalformed()
				if len(malformed) == 0 || !strings.HasPrefix(malformed[0], object.String()+" could not be read: runtime error: index") || len(s.TakeMalformed()) > 0 {
					t.Errorf("malformed %q", malformed)
				}
				if good := taskIn(snapshot, "good"); good == nil || good.Status != model.Bound || good.Invalid != nil {
					t.Errorf("another pod is %+v", good)
				}
				if n := snapshot.Node("n"); n == nil || n.Invalid != nil || len(n.Tasks) == 0 {
					t.Errorf("another node is %+v", n)
				}
				if job := snapshot.Job(ns("good")); job == nil || job.Invalid != nil || len(job.Tasks) != 1 {
					t.Errorf("another job is %+v", job)
				}
				bad, isGroup := snapshot.Job(ns("bad")), object.kind == kindGroup
				if refused := bad.Invalid != nil && bad.Invalid.Code == model.Malformed; refused != isGroup || len(bad.Tasks) != 1 || !bad.HasGroup {
					t.Errorf("the gang is %+v", bad)
				}
				if err := s.View().Check(); err != nil {
					t.Error(err)
				}
				s.guard.probe = nil
				fine := withBad(t)
				changeBad(s, 9)
				changeBad(fine, 9)
				if mended, want := dump(snap(t, s, start)), dump(snap(t, fine, start)); mended != want {
					t.Errorf("mended (-want +got):\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(mended, "\n")))
				}
			})
		}
	}
}

// TestPanicOverAnEvent: an object of which the state keeps a number only is left as it was.
func TestPanicOverAnEvent(t *testing.T) {
	s := newState(class("c", 1), budget("b", "x", 1))
	for i, object := range []identity{{"PriorityClass", "", "c"}, {"PodDisruptionBudget", "ns", "b"}} {
		panicOver(s, object)
		c, b := class("c", 2), budget("b", "x", 2)
		c.ResourceVersion, b.ResourceVersion = fmt.Sprint(i+7), fmt.Sprint(i+7)
		s.Apply(seen(c))
		s.Apply(seen(b))
		if malformed := s.TakeMalformed(); len(malformed) != 1 || !strings.HasPrefix(malformed[0], object.String()+" could not be read: ") {
			t.Errorf("malformed %q", malformed)
		}
	}
}
