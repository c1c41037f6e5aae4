package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// created creates members of a group now.
func (w *world) created(group string, members ...int) {
	for _, i := range members {
		w.member(group, i)
		w.change(fmt.Sprintf("%s-%d", group, i), func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(w.clock.Now()) })
	}
}

// TestAGangThatTheSchedulerDeletesKeepsItsAge: evicted for another job, its start undone or restarted; another process goes by
// the status. A gang that ends, or that a user deletes, gets another age.
func TestAGangThatTheSchedulerDeletesKeepsItsAge(t *testing.T) {
	for name, end := range map[string]struct {
		kept bool
		do   func(w *world)
	}{
		"evicted": {true, func(w *world) {
			w.preempting()
			w.high("rush", 2)
			w.play(t.Context(), time.Second)
			w.inPhase("rush-0", corev1.PodSucceeded)
			w.inPhase("rush-1", corev1.PodSucceeded)
		}},
		"restarted": {true, func(w *world) {
			w.alter("mpi", func(group *v1alpha1.PodGroup) {
				group.Spec.MemberLoss = &v1alpha1.MemberLoss{Policy: v1alpha1.MemberLossRestart, TimeoutSeconds: new(int64(5))}
			})
			w.inPhase("mpi-0", corev1.PodFailed)
			w.play(t.Context(), 10*time.Second)
		}},
		"deleted by a user": {false, func(w *world) {
			for _, name := range []string{"mpi-0", "mpi-1"} {
				w.change(name, func(pod *corev1.Pod) { pod.DeletionTimestamp = &metav1.Time{Time: w.clock.Now()} })
			}
		}},
		"evicted, and failed while it was deleted": {true, func(w *world) {
			w.preempting()
			w.high("rush", 2)
			w.play(t.Context(), time.Second)
			w.inPhase("mpi-0", corev1.PodFailed)
			w.inPhase("mpi-1", corev1.PodFailed)
			w.play(t.Context(), time.Second)
			w.inPhase("rush-0", corev1.PodSucceeded)
			w.inPhase("rush-1", corev1.PodSucceeded)
		}},
		"succeeded": {false, func(w *world) {
			w.inPhase("mpi-0", corev1.PodSucceeded)
			w.inPhase("mpi-1", corev1.PodSucceeded)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "2")
			w.gang("mpi", 0, 2)
			w.created("mpi", 0, 1)
			w.play(t.Context(), time.Second)
			w.runAll()
			w.play(t.Context(), time.Minute)
			first := w.groups["mpi"].Status.QueuedSince
			if first == nil {
				t.Fatal("no age of a gang that runs")
			}
			end.do(w)
			w.play(t.Context(), 5*time.Second)
			for _, name := range []string{"mpi-0", "mpi-1"} {
				if w.pods[types.UID(name)] != nil {
					w.gone(name)
				}
			}
			w.play(t.Context(), time.Minute)
			if got := w.groups["mpi"].Status; (got.EvictedAt != nil) != end.kept || got.QueuedSince.Equal(first) != end.kept {
				t.Errorf("without members: evicted at %v, in the queue since %v, before: %v", got.EvictedAt, got.QueuedSince, first)
			}
			w.restart()
			w.created("mpi", 2, 3)
			w.play(t.Context(), time.Minute)
			if got := w.groups["mpi"].Status; got.EvictedAt != nil || got.QueuedSince == nil || got.QueuedSince.Equal(first) != end.kept {
				t.Errorf("started again: evicted at %v, in the queue since %v, before: %v", got.EvictedAt, got.QueuedSince, first)
			}
		})
	}
}

// TestAnUndoneStartKeepsItsAge: the members that were bound are deleted and come again.
func TestAnUndoneStartKeepsItsAge(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.refuseTo("mpi-1")
	w.gang("mpi", 0, 2)
	w.created("mpi", 0, 1)
	w.play(t.Context(), time.Second)
	first := w.groups["mpi"].Status.QueuedSince
	w.play(t.Context(), time.Minute)
	if got := w.groups["mpi"].Status; first == nil || got.EvictedAt == nil || !got.QueuedSince.Equal(first) {
		t.Errorf("evicted at %v, in the queue since %v, before: %v", got.EvictedAt, got.QueuedSince, first)
	}
}
