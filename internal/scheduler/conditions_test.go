package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// has returns the status and the reason of a condition of a group; both are empty when it has none.
func (w *world) has(group, kind string) [2]string {
	if c := meta.FindStatusCondition(w.groups[group].Status.Conditions, kind); c != nil {
		return [2]string{string(c.Status), c.Reason}
	}
	return [2]string{}
}

func (w *world) expectCondition(group, kind, status, reason string) {
	w.t.Helper()
	if got, want := w.has(group, kind), [2]string{status, reason}; got != want {
		w.t.Errorf("condition %s of %s is %q, want %q", kind, group, got, want)
	}
}

// TestAConditionHasOneMeaning: that a gang is degraded does not change what is said of its start.
func TestAConditionHasOneMeaning(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	w.expectCondition("mpi", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "", "")
	w.gone("mpi-1")
	w.play(t.Context(), time.Minute)
	w.expectCondition("mpi", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "True", "Degraded")
	w.member("mpi", 2)
	w.play(t.Context(), time.Minute)
	w.expectCondition("mpi", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "False", "Ended")
}

// TestTheConditionOfTheVersionBeforeIsRead: it said of a degraded gang Scheduled=True with the reason Degraded. The gang is not
// taken for one whose start was interrupted, and its condition is written again.
func TestTheConditionOfTheVersionBeforeIsRead(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 0, 2)
	group := w.groups["mpi"].DeepCopy()
	group.Status = v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupDegraded, Members: 1, Placed: 1, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: "Degraded", Message: "below its minimum: needs 2, 1 bound",
	}}}
	w.group(group)
	w.member("mpi", 0)
	pod := w.pods["mpi-0"].DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
	w.pod(pod)
	if got := sent(w.play(t.Context(), 10*time.Minute), commit.CallDeleteStarted); len(got) > 0 {
		t.Errorf("deleted %q: the gang was whole", got)
	}
	w.expectCondition("mpi", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "True", "Degraded")
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupDegraded {
		t.Errorf("phase %s", status.Phase)
	}
}

// TestAdviceIsEmptiedOnce, of a gang that waits and of one that runs, where nothing is found.
func TestAdviceIsEmptiedOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("runs", 2, 2)
	w.gang("waits", 3, 3)
	w.play(t.Context(), time.Minute)
	w.expectCondition("waits", v1alpha1.ConditionScheduled, "False", "InsufficientResources")
	for _, name := range []string{"runs", "waits"} {
		group := w.groups[name].DeepCopy()
		if group.Status.Advice != nil {
			t.Fatalf("%s has %+v", name, group.Status.Advice)
		}
		group.Status.Advice = &v1alpha1.Advice{Message: "add 1 node with 1 cpu", Alternatives: []v1alpha1.Suggestion{{
			Changes: []v1alpha1.Change{{Kind: v1alpha1.AddNodes, Message: "add 1 node with 1 cpu", Count: 1}},
		}}}
		w.group(group)
	}
	w.restart()
	if counts := kinds(w.play(t.Context(), 10*time.Minute)); counts[commit.CallGroupStatus] != 2 {
		t.Errorf("%d statuses are written, want one of each group", counts[commit.CallGroupStatus])
	}
	for _, name := range []string{"runs", "waits"} {
		if advice := w.groups[name].Status.Advice; advice != nil {
			t.Errorf("%s has still %+v", name, advice)
		}
	}
}

// TestAdviceIsOfItsCondition: what is found of a gang is in its status, and no longer once the gang or its reason is another one.
func TestAdviceIsOfItsCondition(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("waits", 4, 5)
	w.play(t.Context(), time.Minute)
	w.expectCondition("waits", v1alpha1.ConditionScheduled, "False", "NotEnoughMembers")
	find := func() {
		findings := map[model.JobKey]Finding{}
		for _, of := range RefusedOf(w.loop.state.LastSnapshot(), w.loop.Refusals()) {
			findings[of.Key] = Finding{Subject: of.Subject, Advice: &v1alpha1.Advice{Message: "lower minMember from 5 to 4"}, At: w.clock.Now()}
		}
		w.loop.Advise(findings)
		w.play(t.Context(), 20*time.Second)
	}
	if find(); w.groups["waits"].Status.Advice == nil {
		t.Fatal("what was found is not in the status")
	}
	w.member("waits", 4)
	w.play(t.Context(), 30*time.Second)
	w.expectCondition("waits", v1alpha1.ConditionScheduled, "False", "InsufficientResources")
	if advice := w.groups["waits"].Status.Advice; advice != nil {
		t.Fatalf("beside another reason there is still %q", advice.Message)
	}
	if find(); w.groups["waits"].Status.Advice == nil {
		t.Fatal("what was found then is not in the status")
	}
	w.node("n2", "4")
	w.play(t.Context(), 30*time.Second)
	w.expectCondition("waits", v1alpha1.ConditionScheduled, "True", "Scheduled")
	if advice := w.groups["waits"].Status.Advice; advice != nil {
		t.Errorf("a gang that has started has %q", advice.Message)
	}
}

// TestAReservationIsACondition, until the gang has started.
func TestAReservationIsACondition(t *testing.T) {
	w := reserving(t, "0s")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	w.play(t.Context(), 2*time.Second)
	w.expectCondition("big", v1alpha1.ConditionReserved, "True", "Reserved")
	w.inPhase("first-0", corev1.PodSucceeded)
	w.play(t.Context(), 5*time.Second)
	w.expectCondition("big", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("big", v1alpha1.ConditionReserved, "False", "Ended")
}

// TestAGangWhoseBindsTheWatchShowsLateIsNotDegraded: the API server has confirmed all binds, and the watch has shown one.
func TestAGangWhoseBindsTheWatchShowsLateIsNotDegraded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.late = func(pod *corev1.Pod) bool { return pod.Name == "mpi-1" && pod.Spec.NodeName != "" }
	w.gang("mpi", 2, 2)
	w.play(t.Context(), 10*time.Second)
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "", "")
	w.late = nil
	w.pod(w.pods["mpi-1"].DeepCopy())
	w.play(t.Context(), 10*time.Second)
	w.expectCondition("mpi", v1alpha1.ConditionScheduled, "True", "Scheduled")
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "", "")

	w.gone("mpi-1") // while a replacement is being bound, the gang stays degraded
	w.play(t.Context(), 10*time.Second)
	w.late = func(pod *corev1.Pod) bool { return pod.Name == "mpi-2" && pod.Spec.NodeName != "" }
	w.member("mpi", 2)
	w.play(t.Context(), 10*time.Second)
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "True", "Degraded")
	w.late = nil
	w.pod(w.pods["mpi-2"].DeepCopy())
	w.play(t.Context(), 10*time.Second)
	w.expectCondition("mpi", v1alpha1.ConditionDegraded, "False", "Ended")
}
