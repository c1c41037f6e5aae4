package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// TestTheStatusOfTheSecondRunIsItsOwn while the members of the first are kept.
func TestTheStatusOfTheSecondRunIsItsOwn(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	w.runAll()
	w.play(t.Context(), time.Minute)
	ended := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"mpi-0", "mpi-1"} {
		pod := w.pods[types.UID(name)].DeepCopy()
		end := &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(ended)}
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Terminated: end}}}
		w.pod(pod)
	}
	w.play(t.Context(), time.Minute)
	if phase := w.groups["mpi"].Status.Phase; phase != v1alpha1.PodGroupSucceeded {
		t.Fatalf("after the first run: phase %s", phase)
	}
	later := func(name string) {
		pod := w.pods[types.UID(name)].DeepCopy()
		pod.CreationTimestamp = metav1.NewTime(ended.Add(time.Minute))
		w.pod(pod)
	}
	w.member("mpi", 2)
	later("mpi-2")
	w.play(t.Context(), time.Minute)
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupPending || status.Members != 1 || status.Succeeded != 0 || status.Placed != 0 {
		t.Errorf("with one member of the second run: %+v", status)
	}
	w.member("mpi", 3)
	later("mpi-3")
	w.play(t.Context(), time.Minute)
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupStarting || status.Members != 2 || status.Placed != 2 || status.Succeeded != 0 {
		t.Errorf("with all of the second run: %+v", status)
	}
}
