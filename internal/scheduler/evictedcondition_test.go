package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// runningGang is a world with a gang of two that runs on all that there is.
func runningGang(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.preempting()
	w.node("n1", "2")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Minute)
	w.run("mpi-0", "mpi-1")
	w.play(t.Context(), time.Minute)
	return w
}

// expectEvicted compares phase, reason and the condition Evicted of the gang, and what its message has.
func (w *world) expectEvicted(when string, phase v1alpha1.PodGroupPhase, reason, status, by, words string) {
	w.t.Helper()
	shown := w.groups["mpi"].Status
	if got := w.has("mpi", v1alpha1.ConditionScheduled); shown.Phase != phase || got[1] != reason {
		w.t.Errorf("%s: %s %s, want %s %s", when, shown.Phase, got[1], phase, reason)
	}
	evicted := meta.FindStatusCondition(shown.Conditions, v1alpha1.ConditionEvicted)
	if got := w.has("mpi", v1alpha1.ConditionEvicted); got != [2]string{status, by} || evicted != nil && !strings.Contains(evicted.Message, words) {
		w.t.Errorf("%s: Evicted is %+v, want %s %s with %q", when, evicted, status, by, words)
	}
}

// TestAGangSaysThatItWasEvicted: in its condition and phase, by whom and for whom, until its minimum is bound again, also where
// another process takes over meanwhile.
func TestAGangSaysThatItWasEvicted(t *testing.T) {
	w := runningGang(t)
	w.expectEvicted("it runs", v1alpha1.PodGroupRunning, "Scheduled", "", "", "")
	w.high("high", 1)
	w.play(t.Context(), 10*time.Second)
	const whom = "Evicted 2 members to free capacity for PodGroup default/high, whose priority is 100"
	w.expectEvicted("the members end", v1alpha1.PodGroupPending, "Evicted", "True", "ByPriority", whom)
	at := w.groups["mpi"].Status.EvictedAt
	if c := meta.FindStatusCondition(w.groups["mpi"].Status.Conditions, v1alpha1.ConditionEvicted); c == nil || at == nil || c.LastTransitionTime.Sub(at.Time).Abs() > time.Second {
		t.Errorf("evicted at %v, and the condition says %+v", at, c)
	}
	for i := range 2 { // as a Job lets them stand until it has counted them
		w.inPhase(fmt.Sprint("mpi-", i), corev1.PodFailed)
	}
	w.play(t.Context(), 10*time.Second)
	w.expectEvicted("they have failed", v1alpha1.PodGroupPending, "Evicted", "True", "ByPriority", whom)
	w.restart()
	w.play(t.Context(), 10*time.Second)
	w.expectEvicted("another process", v1alpha1.PodGroupPending, "Evicted", "True", "ByPriority", whom)
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.play(t.Context(), time.Minute)
	w.expectEvicted("they are gone", v1alpha1.PodGroupPending, "Evicted", "True", "ByPriority", whom)
	if c := w.condition("mpi"); !strings.Contains(c.Message, whom+"; ") || !strings.Contains(c.Message, "0 exist") ||
		!strings.Contains(c.Message, "else by hand") || strings.Contains(c.Message, "names it") {
		t.Errorf("says %q", c.Message)
	}
	w.member("mpi", 2)
	w.member("mpi", 3)
	w.play(t.Context(), time.Minute)
	w.expectEvicted("they are made again", v1alpha1.PodGroupPending, "InsufficientResources", "True", "ByPriority", whom)
	w.gone("high-0")
	w.play(t.Context(), time.Minute)
	w.expectEvicted("it has started", v1alpha1.PodGroupStarting, "Scheduled", "False", "Ended", "bound again")
	if later := w.play(t.Context(), 5*time.Minute); len(later) != 0 {
		t.Errorf("%d calls at rest, the first %+v", len(later), later[0])
	}
}

// evictByUser evicts pods as kubectl drain does.
func (w *world) evictByUser(names ...string) {
	for _, name := range names {
		w.change(name, func(pod *corev1.Pod) {
			pod.DeletionTimestamp = new(metav1.NewTime(w.clock.Now().Add(time.Minute)))
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI",
			})
		})
	}
}

// TestAUserEvictsAGang: it is said so, one eviction after the other.
func TestAUserEvictsAGang(t *testing.T) {
	w := runningGang(t)
	w.evictByUser("mpi-0")
	w.play(t.Context(), 10*time.Second)
	w.expectEvicted("one of two", v1alpha1.PodGroupDegraded, "Scheduled", "True", "ByUser", "Evicted 1 member through")
	w.gone("mpi-0")
	w.evictByUser("mpi-1")
	w.play(t.Context(), 20*time.Second)
	w.expectEvicted("both", v1alpha1.PodGroupPending, "Evicted", "True", "ByUser", "Evicted 2 members through")
	w.inPhase("mpi-1", corev1.PodFailed)
	w.play(t.Context(), 20*time.Second)
	w.expectEvicted("both, and one has ended", v1alpha1.PodGroupPending, "Evicted", "True", "ByUser", "Evicted 2 members through")
}

// TestWhoEvictedIsNotGuessed: of a pod that is terminating when a process begins to lead, and of one that the scheduler has
// evicted when the gang had members above its minimum, it is not said that a user did it.
func TestWhoEvictedIsNotGuessed(t *testing.T) {
	w := runningGang(t)
	w.evictByUser("mpi-0")
	w.restart()
	w.play(t.Context(), 10*time.Second)
	w.expectEvicted("found terminating", v1alpha1.PodGroupDegraded, "Scheduled", "", "", "")

	w = newWorld(t)
	w.preempting()
	w.node("n1", "2")
	w.gang("mpi", 2, 1)
	w.play(t.Context(), time.Minute)
	w.run("mpi-0", "mpi-1")
	w.high("high", 1)
	w.play(t.Context(), 10*time.Second)
	evicted := ""
	for name, pod := range w.pods {
		if pod.DeletionTimestamp != nil {
			evicted = string(name)
		}
	}
	w.change(evicted, func(pod *corev1.Pod) {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	})
	w.play(t.Context(), 10*time.Second)
	w.expectEvicted("above its minimum", v1alpha1.PodGroupRunning, "Scheduled", "", "", "")
	for _, name := range []string{"mpi-0", "mpi-1"} {
		if name != evicted {
			w.inPhase(name, corev1.PodFailed)
		}
	}
	w.play(t.Context(), 10*time.Second)
	if got := w.has("mpi", v1alpha1.ConditionEvicted); got != [2]string{} {
		t.Errorf("the other member has failed: Evicted is %v", got)
	}
}

// TestAMemberThatFailsByItself is no eviction, also where the others were evicted before.
func TestAMemberThatFailsByItself(t *testing.T) {
	w := runningGang(t)
	w.evictByUser("mpi-0")
	w.play(t.Context(), 10*time.Second)
	w.inPhase("mpi-0", corev1.PodFailed)
	w.inPhase("mpi-1", corev1.PodFailed)
	w.play(t.Context(), 20*time.Second)
	w.expectEvicted("one failed", v1alpha1.PodGroupFailed, "Scheduled", "False", "Ended", "has ended")
}
