package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// refuseTo refuses the binds of one pod, to some nodes or, without any named, to all.
func (w *world) refuseTo(pod string, nodes ...string) {
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == pod && (len(nodes) == 0 || slices.Contains(nodes, call.Node)) {
			return forbidden(call)
		}
		return nil
	}
}

// restarted creates a pod of the gang mpi as its owner does for one that is gone.
func (w *world) restarted(name string) {
	w.member("mpi", 99)
	pod := w.pods["mpi-99"].DeepCopy()
	w.gone("mpi-99")
	pod.Name, pod.UID = name, types.UID(name+"-restarted")
	w.pod(pod)
}

// sent returns the calls of one kind, as "pod node".
func sent(calls []commit.Call, kind commit.Kind) []string {
	var words []string
	for _, call := range calls {
		if call.Kind == kind {
			words = append(words, call.Pod.Name+" "+call.Node)
		}
	}
	return words
}

// events returns the notes of the events with that reason.
func events(calls []commit.Call, reason string) []string {
	var notes []string
	for _, call := range calls {
		if call.Kind == commit.CallEvent && call.Write.(*commit.Event).Reason == reason {
			notes = append(notes, call.Write.(*commit.Event).Note)
		}
	}
	return notes
}

func TestMemberThatFailsOnOneNodeIsBoundToAnother(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "3")
	w.node("n2", "3")
	w.refuseTo("mpi-1", "n1")
	w.gang("mpi", 3, 3)
	calls := w.play(t.Context(), time.Second)
	if got := sent(calls, commit.CallBind); len(got) != 4 || got[3] != "mpi-1 n2" {
		t.Errorf("binds %q, want the last one on the other node, immediately", got)
	}
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v", c)
	}
	w.play(t.Context(), time.Minute)
	if len(w.pods) != 3 || w.loop.sizes().starts != 0 {
		t.Errorf("%d pods are left; kept at rest: %+v", len(w.pods), w.loop.sizes())
	}
}

// TestAMemberThatCannotBeBoundIsReplacedByAnother: the gang can do without it, and has capacity for no more than its minimum.
func TestAMemberThatCannotBeBoundIsReplacedByAnother(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.refuseTo("mpi-0")
	w.gang("mpi", 3, 2)
	calls := w.play(t.Context(), 2*time.Second)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v after %s", c, decided(calls))
	}
	w.play(t.Context(), 10*time.Minute)
	if len(w.pods) != 3 || w.loop.sizes().delays != 0 {
		t.Errorf("%d pods are left; kept at rest: %+v", len(w.pods), w.loop.sizes())
	}
}

func TestStartThatCannotBeCompletedIsUndone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseTo("mpi-1")
	w.grace = ptr.To[int64](31_536_000)
	w.gang("mpi", 3, 3)
	before := w.play(t.Context(), 29*time.Second)
	if got := sent(before, commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("undone before the deadline: %q", got)
	}
	if n := kinds(before)[commit.CallBind]; n < 6 || n > 9 {
		t.Errorf("%d binds in 29 s, want some and no storm", n)
	}
	calls := w.play(t.Context(), 2*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-2 n1"}) {
		t.Errorf("undone %q, want the two that were bound", got)
	}
	for _, call := range calls {
		if call.Kind == commit.CallDeleteStarted && call.GraceSeconds != 300 {
			t.Errorf("%s may take %d s, want no more than maxGrace", call.Pod, call.GraceSeconds)
		}
	}
	notes := events(calls, report.ReasonStartUndone)
	if len(notes) != 1 || !strings.Contains(notes[0], "pod mpi-1 could not be bound to n1") || !strings.Contains(notes[0], "mpi-0 on n1, mpi-2 on n1") {
		t.Errorf("events %q", notes)
	}
	c := w.condition("mpi")
	if c.Status != metav1.ConditionFalse || c.Reason != "BindFailed" ||
		!strings.Contains(c.Message, "only 2 of 3 were bound in time: pod mpi-1 could not be bound to n1") {
		t.Errorf("condition %+v", c)
	}
	if status := w.groups["mpi"].Status; status.Placed != 0 || status.Phase != v1alpha1.PodGroupPending {
		t.Errorf("status %+v", status)
	}
	// Their owner creates them again; the job waits its rest, and then starts as a whole.
	w.refuse = nil
	w.restarted("mpi-0")
	w.restarted("mpi-2")
	if n := kinds(w.play(t.Context(), 28*time.Second))[commit.CallBind]; n != 0 {
		t.Errorf("%d binds of a job that is left alone", n)
	}
	w.play(t.Context(), 5*time.Second)
	if c := w.condition("mpi"); c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v after the rest", c)
	}
	w.play(t.Context(), 12*time.Minute)
	if !w.loop.machine.Idle() || w.loop.sizes() != (sizes{}) {
		t.Errorf("kept at rest: %+v", w.loop.sizes())
	}
}

// TestDeadlineCountsFromTheFirstBind, across the attempts to place the missing members again. While it is unknown what became
// of one of them nothing is undone.
func TestDeadlineCountsFromTheFirstBind(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 4, 4)
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-1" || call.Pod.Name == "mpi-3" {
			return forbidden(call)
		}
		return nil
	}
	w.play(t.Context(), 10*time.Second)
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-3" {
			return forbidden(call)
		}
		return errors.New("no answer")
	}
	w.refuseRead = func(call commit.Call) error { return errors.New("no answer") }
	w.play(t.Context(), 50*time.Second)
	if got := len(w.pods); got != 4 {
		t.Fatalf("%d pods are left: undone while it is not known what became of a bind", got)
	}
	w.refuseRead = nil
	calls := w.play(t.Context(), 15*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); len(got) != 2 || len(sent(calls, commit.CallBind)) != 0 {
		t.Errorf("undone %q, bound %q once it was known that mpi-1 was not bound", got, sent(calls, commit.CallBind))
	}
}

func TestLostAnswerOfABindIsResolvedByReading(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	shown := map[types.UID]bool{}
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name != "mpi-1" {
			return nil
		}
		if !shown[call.Pod.UID] { // it takes effect, and neither the answer nor the watch says so
			shown[call.Pod.UID] = true
			pod := w.pods[call.Pod.UID].DeepCopy()
			pod.Spec.NodeName = call.Node
			w.meta(pod)
			w.pods[pod.UID] = pod
			return errors.New("no answer")
		}
		return assigned(call)
	}
	calls := w.play(t.Context(), 5*time.Second)
	if got := sent(calls, commit.CallGetPod); !slices.Equal(got, []string{"mpi-1 n1"}) {
		t.Errorf("read %q", got)
	}
	if w.loop.state.Snapshot(w.clock.Now()).Job(jobKey("mpi")).FirstUnmetMinimum((*model.Task).IsBound) == nil {
		t.Error("the watch has shown it")
	}
	w.pod(w.pods["mpi-1"].DeepCopy())
	w.play(t.Context(), time.Minute)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue || len(w.pods) != 3 {
		t.Errorf("condition %+v, %d pods", c, len(w.pods))
	}
}

// TestMemberLostRightAfterTheStart: the gang was whole, although its status did not say so in time.
func TestMemberLostRightAfterTheStart(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseWrites = forbidden
	w.gang("mpi", 3, 3)
	w.play(t.Context(), time.Second)
	w.gone("mpi-1")
	if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q: it is degraded, not interrupted", got)
	}
	w.refuseWrites = nil
	w.play(t.Context(), 10*time.Minute)
	if c := w.condition("mpi"); c == nil || c.Reason != v1alpha1.ConditionDegraded || w.groups["mpi"].Status.Phase != v1alpha1.PodGroupDegraded {
		t.Errorf("condition %+v, phase %s", c, w.groups["mpi"].Status.Phase)
	}
}

// TestMemberLostWhileAnAnswerIsAwaited: the watch has shown the minimum, the status does not say so yet, and the answer to the
// bind of one more member is lost.
func TestMemberLostWhileAnAnswerIsAwaited(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseWrites = forbidden
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-3" {
			return errors.New("connection reset")
		}
		return nil
	}
	w.gang("mpi", 4, 3)
	w.play(t.Context(), 3*time.Second)
	w.gone("mpi-1")
	w.play(t.Context(), time.Second)
	w.refuseWrites = nil
	w.play(t.Context(), 2*time.Second)
	w.node("n1", "2")
	w.play(t.Context(), time.Minute)
	if c := w.condition("mpi"); c == nil || c.Reason != v1alpha1.ConditionDegraded {
		t.Errorf("condition %+v", c)
	}
}

// TestMemberLostBeforeThereWasAnythingToTell: the API server has confirmed that the gang is whole, and that is all there is
// so far.
func TestMemberLostBeforeThereWasAnythingToTell(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseWrites = forbidden
	w.gang("mpi", 3, 3)
	if got := kinds(w.play(t.Context(), 100*time.Millisecond)); got[commit.CallBind] != 3 || got[commit.CallGroupStatus] != 0 {
		t.Fatalf("calls %v, want three binds and no status yet", got)
	}
	w.gone("mpi-1")
	if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q: it is degraded, not interrupted", got)
	}
}

// TestInterruptedStartAfterARestart: it is completed if it can be, and undone soon if its time was over before.
func TestInterruptedStartAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		down, undone time.Duration // how long no scheduler led; when the start is undone after the restart
		works        bool
	}{
		"completed":             {5 * time.Second, 0, true},
		"completed late":        {time.Hour, 0, true},
		"undone in its time":    {5 * time.Second, 24 * time.Second, false},
		"undone after its time": {time.Hour, lifecycle.MaxRepair, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1", "8")
			w.gang("mpi", 3, 3)
			w.drop = func(call commit.Call) bool { return call.Kind != commit.CallBind || call.Pod.Name == "mpi-1" }
			w.play(t.Context(), time.Second)
			w.drop = nil
			w.clock.Step(c.down)
			w.restart()
			if !c.works {
				w.refuseTo("mpi-1")
			}
			w.play(t.Context(), 2*time.Second)
			if c.works {
				if condition := w.condition("mpi"); condition == nil || condition.Status != metav1.ConditionTrue {
					t.Errorf("condition %+v", condition)
				}
				return
			}
			if got := sent(w.play(t.Context(), c.undone-4*time.Second), commit.CallDeleteStarted); len(got) != 0 {
				t.Errorf("undone too early: %q", got)
			}
			if got := sent(w.play(t.Context(), 4*time.Second), commit.CallDeleteStarted); len(got) != 2 {
				t.Errorf("undone %q, want two", got)
			}
		})
	}
}

// TestDegradedGangAfterARestart is not touched: its status says that it was whole.
func TestDegradedGangAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	w.play(t.Context(), time.Second)
	w.gone("mpi-2")
	w.restart()
	if got := sent(w.play(t.Context(), 5*time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q", got)
	}
}

// TestMembersThatWereCreatedOnANodeAreNotUndone: no scheduler has bound them.
func TestMembersThatWereCreatedOnANodeAreNotUndone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.gang("mpi", 2, 2)
	pod := w.pods["mpi-0"].DeepCopy()
	pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning
	w.pod(pod)
	if got := sent(w.play(t.Context(), 5*time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q", got)
	}
}

// TestUndoThatIsRefusedIsTriedAgain, after a while.
func TestUndoThatIsRefusedIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseTo("mpi-1")
	w.refuseUndo = forbidden
	w.gang("mpi", 3, 3)
	if n := kinds(w.play(t.Context(), 3*time.Minute))[commit.CallDeleteStarted]; n < 4 || n > 8 {
		t.Errorf("%d deletions in three minutes, want some for each of two pods", n)
	}
	if c := w.condition("mpi"); strings.Count(c.Message, "in time") != 1 || !strings.Contains(c.Message, "mpi-1 could not be bound") {
		t.Errorf("after several attempts the message is %q, want the cause, once", c.Message)
	}
	w.refuseUndo = nil
	w.play(t.Context(), 5*time.Minute)
	if len(w.pods) != 1 {
		t.Errorf("%d pods are left, want the one that was never bound", len(w.pods))
	}
}

// TestGangThatLostAllStartsAgain: what its status says of the members it had is not true of those it gets.
func TestGangThatLostAllStartsAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.refuseTo("mpi-1")
	w.restarted("mpi-0")
	w.restarted("mpi-1")
	calls := w.play(t.Context(), 33*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1"}) {
		t.Errorf("undone %q, want the one member of the second start that was bound", got)
	}
	if c := w.condition("mpi"); c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v", c)
	}
}

// TestStartingAgainIsNotTakenForALossAfterACrash: the group was whole, has lost all, and is in part again when the process
// ends. Its status must not say by then that what is bound is left of a gang that was whole.
func TestStartingAgainIsNotTakenForALossAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.refuseTo("mpi-1")
	w.restarted("mpi-0")
	w.restarted("mpi-1")
	w.drop = func(call commit.Call) bool { return call.Kind != commit.CallBind } // as slow as the server may be with them
	w.play(t.Context(), time.Second)
	w.drop = nil
	w.restart()
	w.play(t.Context(), 2*time.Minute)
	if pod := w.pods["mpi-0-restarted"]; pod != nil && pod.Spec.NodeName != "" {
		t.Errorf("part of the gang runs for good, phase %s: %+v", w.groups["mpi"].Status.Phase, w.condition("mpi"))
	}
}

// TestAStatusThatCannotBeWrittenKeepsNoJobFromStarting for long.
func TestAStatusThatCannotBeWrittenKeepsNoJobFromStarting(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	w.refuseWrites = forbidden
	for _, name := range []string{"mpi-0", "mpi-1"} {
		w.gone(name)
		w.restarted(name)
	}
	if got := sent(w.play(t.Context(), lifecycle.MaxStatusWait-time.Second), commit.CallBind); len(got) != 0 {
		t.Errorf("bound %q before its status says that it starts again", got)
	}
	if got := sent(w.play(t.Context(), 2*time.Second), commit.CallBind); len(got) != 2 {
		t.Errorf("bound %q", got)
	}
}

// TestMemberLostRightAfterTheNextLeaderBegan: the gang was whole when it began, although the status has not said so yet.
func TestMemberLostRightAfterTheNextLeaderBegan(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuseWrites = forbidden
	w.gang("mpi", 3, 3)
	w.play(t.Context(), time.Second)
	w.restart()
	w.play(t.Context(), 50*time.Millisecond) // before there is anything to tell
	w.gone("mpi-1")
	if got := sent(w.play(t.Context(), time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("undone %q: it is degraded, not interrupted", got)
	}
}

// TestMembersLostBeforeTheFirstStatusGiveNoFirstTurn: a gang loses a member before its status says that it has started, and then
// another one, which it replaces by one that asks for more. What it started with is known all the same, also to the next process:
// a job of higher priority is before it.
func TestMembersLostBeforeTheFirstStatusGiveNoFirstTurn(t *testing.T) {
	for _, crash := range []bool{false, true} {
		w := newWorld(t)
		w.node("n1", "4")
		w.gangOf("early", "2")
		w.play(t.Context(), time.Second)
		w.refuseWrites = forbidden
		w.gang("mpi", 0, 3)
		for i := range 3 {
			w.memberOf("mpi", i, "500m")
		}
		w.play(t.Context(), time.Second)
		w.gone("mpi-2")
		w.play(t.Context(), time.Second)
		w.refuseWrites = nil
		w.play(t.Context(), 20*time.Second)
		requests := w.groups["mpi"].Status.StartedRequests
		if got := requests.Cpu(); w.groups["mpi"].Status.StartedMinMember != 3 || got.String() != "1500m" {
			t.Errorf("status %+v, want one of a gang that started with 3 members and 1500m", w.groups["mpi"].Status)
		}
		if crash {
			w.restart()
		}
		w.gone("mpi-1")
		w.memberOf("mpi", 3, "2500m")
		w.gangOf("rival", "2500m")
		w.change("rival-0", func(pod *corev1.Pod) {
			pod.Spec.Priority, pod.Spec.PreemptionPolicy = ptr.To[int32](100), ptr.To(corev1.PreemptNever)
		})
		w.play(t.Context(), time.Second)
		w.gone("early-0")
		if got := sent(w.play(t.Context(), time.Second), commit.CallBind); !slices.Equal(got, []string{"rival-0 n1"}) {
			t.Errorf("bound %q, want the job of higher priority", got)
		}
	}
}
