package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// runAll makes every pod that is on a node run.
func (w *world) runAll() {
	for _, pod := range w.pods {
		if pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodPending {
			w.inPhase(string(pod.UID), corev1.PodRunning)
		}
	}
}

// alter stores a changed copy of a group.
func (w *world) alter(name string, change func(*v1alpha1.PodGroup)) {
	group := w.groups[name].DeepCopy()
	change(group)
	w.group(group)
}

// lackMembers lets two of four members finish and be deleted, and a third one fail.
func (w *world) lackMembers() {
	w.play(w.t.Context(), time.Second)
	w.runAll()
	w.play(w.t.Context(), time.Second)
	for i := range 2 {
		w.inPhase(fmt.Sprintf("mpi-%d", i), corev1.PodSucceeded)
	}
	w.play(w.t.Context(), time.Second)
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.inPhase("mpi-2", corev1.PodFailed)
	w.play(w.t.Context(), time.Second)
}

// TestAGangThatWasWholeGetsReplacementsAlthoughItLacksMembers, with and without a PodGroup, and from another process, too.
func TestAGangThatWasWholeGetsReplacementsAlthoughItLacksMembers(t *testing.T) {
	for _, implicit := range []bool{false, true} {
		for _, restart := range []bool{false, true} {
			w := newWorld(t)
			w.node("n1", "8")
			replace := w.member
			if implicit {
				w.implicit("mpi", 4, 4)
				replace = func(group string, i int) { w.implied(group, i, 4) }
			} else {
				w.gang("mpi", 4, 4)
			}
			w.lackMembers()
			if restart {
				w.restart()
				w.play(t.Context(), time.Second)
			}
			replace("mpi", 4)
			if got := sent(w.play(t.Context(), time.Minute), commit.CallBind); !slices.Equal(got, []string{"mpi-4 n1"}) {
				t.Errorf("implicit %v, restart %v: binds %q, want the replacement", implicit, restart, got)
			}
			if !implicit {
				if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupDegraded || status.DegradedSince == nil {
					t.Errorf("phase %s, degraded since %v: the stated minimum is not bound", status.Phase, status.DegradedSince)
				}
			}
		}
	}
}

// TestAGangThatWasNeverWholeStaysStrict: of an interrupted start one member is left, and too few exist to complete it.
func TestAGangThatWasNeverWholeStaysStrict(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", "8")
		w.refuseTo("mpi-2")
		w.gang("mpi", 3, 3)
		w.play(t.Context(), time.Second)
		w.refuse = nil
		w.gone("mpi-1")
		w.gone("mpi-2")
		if restart {
			w.restart()
		}
		w.member("mpi", 3)
		if got := sent(w.play(t.Context(), 2*time.Second), commit.CallBind); len(got) != 0 {
			t.Errorf("restart %v: binds %q of a gang that lacks members and was never whole", restart, got)
		}
		if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionFalse || c.Reason != string(model.NotEnoughMembers) {
			t.Errorf("restart %v: condition %+v", restart, c)
		}
	}
}

// TestAReplacementWithoutRoomLeavesTheGangDegraded, says what it lacks, and does not put off the restart that memberLoss
// asks for.
func TestAReplacementWithoutRoomLeavesTheGangDegraded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("mpi", 4, 4)
	w.alter("mpi", func(group *v1alpha1.PodGroup) {
		group.Spec.MemberLoss = &v1alpha1.MemberLoss{Policy: v1alpha1.MemberLossRestart, TimeoutSeconds: new(int64(20))}
	})
	w.lackMembers()
	w.low("other", "n1")
	w.low("another", "n1")
	w.low("third", "n1")
	w.member("mpi", 4)
	w.play(t.Context(), 5*time.Second)
	status, c := w.groups["mpi"].Status, w.condition("mpi")
	if status.Phase != v1alpha1.PodGroupDegraded || status.WaitingSince == nil {
		t.Errorf("phase %s, waiting since %v, want Degraded, and that it waits for capacity", status.Phase, status.WaitingSince)
	}
	if c.Reason != "Degraded" || !strings.HasPrefix(c.Message, "below its minimum: needs 2, 1 would fit; 1 node lacks cpu") {
		t.Errorf("condition %s: %s", c.Reason, c.Message)
	}
	if got := sent(w.play(t.Context(), 30*time.Second), commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-3 n1"}) {
		t.Errorf("deleted %q, want what is left", got)
	}
}

// TestAConditionThatComesLateStartsTheReplacement: it alone says that the gang was whole, and nothing else happens after it.
func TestAConditionThatComesLateStartsTheReplacement(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 4, 4)
	w.lackMembers()
	w.alter("mpi", func(group *v1alpha1.PodGroup) { group.Status = v1alpha1.PodGroupStatus{} })
	late := w.groups["mpi"].DeepCopy()
	late.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue, Reason: "Scheduled"}}
	w.restart()
	w.refuseWrites = forbidden
	w.member("mpi", 4)
	if got := sent(w.play(t.Context(), 2*time.Second), commit.CallBind); len(got) != 0 {
		t.Fatalf("binds %q before it is known that the gang was whole", got)
	}
	w.group(late)
	if got := sent(w.play(t.Context(), 2*time.Second), commit.CallBind); !slices.Equal(got, []string{"mpi-4 n1"}) {
		t.Errorf("binds %q, want the replacement", got)
	}
}

// TestARoleThatIsLostKeepsTheGangDegraded, although all that exists is on a node but for a member of no role.
func TestARoleThatIsLostKeepsTheGangDegraded(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("mpi", 4, 4)
	w.alter("mpi", func(group *v1alpha1.PodGroup) {
		group.Spec.MinMember, group.Spec.Roles = 3, []v1alpha1.Role{{Name: "launcher", MinMember: 1}}
		group.Spec.MemberLoss = &v1alpha1.MemberLoss{Policy: v1alpha1.MemberLossRestart, TimeoutSeconds: new(int64(20))}
	})
	w.change("mpi-0", func(pod *corev1.Pod) { pod.Labels[v1alpha1.LabelRole] = "launcher" })
	w.play(t.Context(), time.Second)
	w.runAll()
	w.gone("mpi-0")
	w.low("other", "n1")
	w.member("mpi", 4)
	w.play(t.Context(), 5*time.Second)
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupDegraded || status.DegradedSince == nil {
		t.Errorf("phase %s, degraded since %v", status.Phase, status.DegradedSince)
	}
	calls := w.play(t.Context(), 30*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-1 n1", "mpi-2 n1", "mpi-3 n1"}) {
		t.Errorf("deleted %q, want what is left", got)
	}
	if got := events(calls, report.ReasonRestarted); len(got) != 1 || !strings.Contains(got[0], "only 3 of 3") {
		t.Errorf("events %q", got)
	}
}
