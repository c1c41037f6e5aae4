package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// object makes, changes or deletes the PodGroup "mpi" of scheduling.x-k8s.io.
func (w *world) object(uid types.UID, minMember int32, deleted bool) {
	spec := &sources.Spec{Source: model.SourceCoscheduling, MinMember: minMember}
	spec.Namespace, spec.Name, spec.UID = "default", "mpi", uid
	w.meta(spec)
	w.mailbox.Event(&cluster.ForeignSeen{Spec: spec, Gone: deleted})
}

// TestAForeignGangThatWasWhole and loses a member while no container runs yet is no interrupted start, whatever has become of its
// object meanwhile.
func TestAForeignGangThatWasWhole(t *testing.T) {
	again := func(minMember int32) func(*world) {
		return func(w *world) {
			w.object("foreign-mpi", 3, true)
			w.play(t.Context(), time.Second)
			w.object("another", minMember, false)
		}
	}
	for name, happens := range map[string]func(*world){
		"nothing":           func(*world) {},
		"made again":        again(3),
		"made again larger": again(4),
		"made larger":       func(w *world) { w.object("foreign-mpi", 4, false) },
		"not served for a while": func(w *world) {
			w.cannotRead(cluster.NotServed)
			w.play(t.Context(), 2*time.Minute)
			w.object("foreign-mpi", 3, false)
			w.cannotRead(cluster.IsRead)
		},
		"off for a while": func(w *world) {
			w.loop.state.Configure(nil, model.DefaultMaxGrace, "coscheduling")
			w.play(t.Context(), 2*time.Minute)
			w.loop.state.Configure(nil, model.DefaultMaxGrace)
		},
	} {
		w := newWorld(t)
		w.node("n1", "3")
		w.cannotRead(cluster.IsRead)
		w.coscheduling("mpi", 3, 3)
		w.play(t.Context(), 10*time.Minute)
		if n := w.boundPods(); n != 3 {
			t.Fatalf("%d are bound", n)
		}
		happens(w)
		calls := w.play(t.Context(), 2*time.Minute)
		w.gone("mpi-1")
		if calls = append(calls, w.play(t.Context(), 2*time.Minute)...); len(sent(calls, commit.CallDeleteStarted)) != 0 {
			t.Errorf("%s: deleted %q", name, sent(calls, commit.CallDeleteStarted))
		}
	}
}

// TestAForeignGangThatAnotherProcessHasStarted is whole also where its object is read a minute after this one begins to lead.
func TestAForeignGangThatAnotherProcessHasStarted(t *testing.T) {
	for _, unread := range []time.Duration{0, time.Minute} {
		next := bindsOf(t, model.SourceCoscheduling, 3).next(t)
		next.clock.Step(time.Hour)
		next.play(t.Context(), unread)
		next.foreignObject(model.SourceCoscheduling, "mpi")
		next.play(t.Context(), 5*time.Minute)
		next.gone("mpi-1")
		if got := sent(next.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(got) != 0 {
			t.Errorf("unread %s: deleted %q", unread, got)
		}
	}
}

// TestAForeignGangWhoseFirstContainerFails, before those of the others run, is no interrupted start.
func TestAForeignGangWhoseFirstContainerFails(t *testing.T) {
	for _, source := range sourcesOfGroups() {
		w := newWorld(t)
		w.node("n1", "8")
		w.foreignObject(source, "mpi")
		for i := range 3 {
			w.member("mpi", i)
			w.change(fmt.Sprintf("mpi-%d", i), func(pod *corev1.Pod) { marked(source, pod, "mpi", i) })
		}
		w.play(t.Context(), 5*time.Minute)
		if n := w.boundPods(); n != 3 {
			t.Fatalf("%s: %d are bound", source.Kind(), n)
		}
		for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodFailed} {
			w.change("mpi-0", func(pod *corev1.Pod) { pod.Status.Phase = phase })
			if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(got) != 0 {
				t.Errorf("%s: deleted %q", source.Kind(), got)
			}
		}
	}
}

// TestAStartByAnExtenderIsUndone, although its pods do not say for which job they were bound: this process has begun it.
func TestAStartByAnExtenderIsUndone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "3")
	w.cannotRead(cluster.IsRead)
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return &outsider{yes: true} }}})
	w.late = func(pod *corev1.Pod) bool { delete(pod.Annotations, v1alpha1.AnnotationJob); return false }
	w.refuseTo("mpi-1")
	w.coscheduling("mpi", 3, 3)
	if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-2 n1"}) {
		t.Errorf("deleted %q", got)
	}
}

// TestAMinimumLoweredToWhatIsBound ends the start: what is lost later is not undone.
func TestAMinimumLoweredToWhatIsBound(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.cannotRead(cluster.IsRead)
	w.refuseTo("mpi-3")
	w.coscheduling("mpi", 4, 4)
	w.play(t.Context(), 5*time.Second)
	w.object("foreign-mpi", 3, false)
	calls := w.play(t.Context(), 10*time.Minute)
	w.gone("mpi-1")
	if calls = append(calls, w.play(t.Context(), time.Minute)...); len(sent(calls, commit.CallDeleteStarted)) != 0 {
		t.Errorf("deleted %q", sent(calls, commit.CallDeleteStarted))
	}
}
