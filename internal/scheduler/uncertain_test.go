package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// extended lets an extender bind all pods.
func (w *world) extended() {
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return &outsider{yes: true} }}})
}

// gangsOf makes a gang of three in each way.
func gangsOf() map[string]func(*world) {
	gangs := map[string]func(*world){
		"PodGroup": func(w *world) { w.gang("mpi", 3, 3) },
		"implicit": func(w *world) { w.implicit("mpi", 3, 3) },
	}
	for _, source := range sourcesOfGroups() {
		gangs[source.Kind()] = func(w *world) {
			w.foreignObject(source, "mpi")
			for i := range 3 {
				w.member("mpi", i)
				w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) { marked(source, pod, "mpi", i) })
			}
		}
	}
	return gangs
}

// TestAMemberLostAfterAStartThatTheWatchHasConfirmed: an extender has bound the minimum, and the watch has shown it. The gang was
// whole, before anything of it runs: what is left is no interrupted start.
func TestAMemberLostAfterAStartThatTheWatchHasConfirmed(t *testing.T) {
	for name, bound := range map[string]func(*world){
		"by an extender": (*world).extended,
		"by an extender, with a late watch": func(w *world) {
			w.extended()
			w.late = func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" }
		},
	} {
		for kind, gang := range gangsOf() {
			w := newWorld(t)
			w.node("n1", "8")
			bound(w)
			w.refuseWrites = forbidden
			gang(w)
			w.play(t.Context(), 15*time.Second)
			if n := w.boundPods(); n != 3 {
				t.Fatalf("%s, %s: %d are bound", kind, name, n)
			}
			w.late = nil
			for _, pod := range w.pods {
				w.pod(pod.DeepCopy())
			}
			w.play(t.Context(), time.Second)
			w.gone("mpi-1")
			if got := sent(w.play(t.Context(), 2*time.Minute), commit.CallDeleteStarted); len(got) != 0 {
				t.Errorf("%s, %s: undone %q: the gang was whole", kind, name, got)
			}
		}
	}
}

// TestAStartThatABinderOnlyClaims is none: what is bound of it is undone once it is known that the rest is not.
func TestAStartThatABinderOnlyClaims(t *testing.T) {
	for kind, gang := range gangsOf() {
		w := newWorld(t)
		w.node("n1", "8")
		w.extended()
		w.loop.sender = claims{w}
		gang(w)
		w.play(t.Context(), 10*time.Second)
		if job := w.loop.state.Snapshot(w.clock.Now()).Jobs[0]; job.Whole || job.Count((*model.Task).IsBound) == 3 && w.boundPods() == 3 {
			t.Fatalf("%s: whole %t, %d bound", kind, job.Whole, w.boundPods())
		}
		if got := sent(w.play(t.Context(), 3*time.Minute), commit.CallDeleteStarted); len(got) != 2 {
			t.Errorf("%s: undone %q, want the two that were bound", kind, got)
		}
	}
}

// claims answers yes to the bind of one pod, and does nothing.
type claims struct{ *world }

func (c claims) Send(call commit.Call) {
	if call.Kind == commit.CallBind && call.Pod.Name == "mpi-1" {
		c.mailbox.Reply(commit.Reply{ID: call.ID})
		return
	}
	c.world.Send(call)
}
