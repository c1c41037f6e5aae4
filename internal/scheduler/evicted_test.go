package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// endDeleted deletes pods while they run, or evicts them. They end with the exit code 0 and are not gone yet.
func (w *world) endDeleted(evicted bool, names ...string) {
	for _, name := range names {
		w.change(name, func(pod *corev1.Pod) {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(w.clock.Now())), new(int64(30))
			if evicted {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
				})
			}
		})
	}
	w.play(w.t.Context(), time.Second)
	for _, name := range names {
		w.inPhase(name, corev1.PodSucceeded)
	}
}

// ofOther shows a group of another project of three, and makes members of it, with a controller of that version and kind.
func ofOther(source model.Source, version, kind string) (gang func(w *world), member func(w *world, i int)) {
	return func(w *world) { w.foreignObject(source, "mpi") }, func(w *world, i int) {
		w.member("mpi", i)
		w.change(fmt.Sprint("mpi-", i), func(pod *corev1.Pod) {
			marked(source, pod, "mpi", i)
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "mpi", UID: "u", Controller: new(true)}}
		})
	}
}

// TestMembersThatEndWhileTheyAreDeleted or evicted with the exit code 0 have not done their work: the members that are made for
// them start together. A Job of Kubernetes has counted them as done; one of Volcano has not.
func TestMembersThatEndWhileTheyAreDeleted(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		membersEnd(t, evicted)
	}
}

func membersEnd(t *testing.T, evicted bool) {
	ofVolcano, inVolcano := ofOther(model.SourceVolcano, "batch.volcano.sh/v1alpha1", "Job")
	for name, c := range map[string]struct {
		gang   func(w *world)
		member func(w *world, i int)
		first  []string
	}{
		"a PodGroup": {func(w *world) { w.gang("mpi", 0, 3) }, func(w *world, i int) { w.member("mpi", i) }, nil},
		"no PodGroup": {func(*world) {}, func(w *world, i int) {
			w.implied("mpi", i, 3)
			w.change(fmt.Sprint("mpi-", i), func(pod *corev1.Pod) { pod.OwnerReferences[0].Kind = "ReplicaSet" })
		}, nil},
		"one of another project": {
			func(w *world) { w.cosched("mpi", 3); w.cannotRead(cluster.IsRead) },
			func(w *world, i int) {
				w.member("mpi", i)
				w.change(fmt.Sprint("mpi-", i), func(pod *corev1.Pod) { marked(model.SourceCoscheduling, pod, "mpi", i) })
			}, nil,
		},
		"a Job of Volcano": {ofVolcano, inVolcano, nil},
		"a Job":            {func(*world) {}, func(w *world, i int) { w.implied("mpi", i, 3) }, []string{"mpi-3 n1"}},
	} {
		w := newWorld(t)
		w.node("n1", "3")
		c.gang(w)
		for i := range 3 {
			c.member(w, i)
		}
		w.play(t.Context(), time.Minute)
		w.run("mpi-0", "mpi-1", "mpi-2")
		w.play(t.Context(), time.Minute)
		w.endDeleted(evicted, "mpi-0", "mpi-1", "mpi-2")
		name = fmt.Sprintf("%s, evicted %t", name, evicted)
		w.node("n1", "1")
		for i := range 3 {
			c.member(w, 3+i)
		}
		if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); !slices.Equal(got, c.first) {
			t.Errorf("%s: bound %q where there is capacity for one, want %q", name, got, c.first)
		}
		if group := w.groups["mpi"]; group != nil && group.Status.Phase != v1alpha1.PodGroupPending {
			t.Errorf("%s: phase %s", name, group.Status.Phase)
		}
		w.node("n1", "3")
		w.play(t.Context(), time.Minute)
		for i := range 3 {
			w.gone(fmt.Sprint("mpi-", i))
		}
		w.play(t.Context(), time.Minute)
		w.wantBound(name, "mpi-3", "mpi-4", "mpi-5")
	}
}

// TestAMemberOfAKueueGroupThatEndsWhileItIsEvicted counts: Kueue takes it for one that has succeeded, and lets no pod be made in
// its place.
func TestAMemberOfAKueueGroupThatEndsWhileItIsEvicted(t *testing.T) {
	gang, member := ofOther(model.SourceKueue, "apps/v1", "ReplicaSet")
	for _, evicted := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", "3")
		gang(w)
		for i := range 3 {
			member(w, i)
		}
		w.play(t.Context(), time.Minute)
		w.run("mpi-0", "mpi-1", "mpi-2")
		w.play(t.Context(), time.Minute)
		w.endDeleted(evicted, "mpi-0", "mpi-1", "mpi-2")
		w.inPhase("mpi-1", corev1.PodFailed)
		w.inPhase("mpi-2", corev1.PodFailed)
		member(w, 3)
		member(w, 4)
		if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); !slices.Equal(got, []string{"mpi-3 n1", "mpi-4 n1"}) {
			t.Errorf("evicted %t: bound %q", evicted, got)
		}
	}
}
