package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/sources"
)

// lossy is a gang of three that runs, and says what is to become of it when it loses members.
func lossy(t *testing.T, policy v1alpha1.MemberLossPolicy, seconds int64) *world {
	t.Helper()
	w := newWorld(t)
	w.node("n1", "3")
	w.gang("mpi", 3, 3)
	group := w.groups["mpi"].DeepCopy()
	group.Spec.MemberLoss = &v1alpha1.MemberLoss{Policy: policy}
	if seconds > 0 {
		group.Spec.MemberLoss.TimeoutSeconds = &seconds
	}
	w.group(group)
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Fatalf("condition %+v", c)
	}
	return w
}

// TestAFieldThatIsNotReadIsSaidOnce: a gang that was written with a removed field, which would have restarted it, waits for its
// members, and one event says so. It says nothing of a gang that has what takes the place of the field.
func TestAFieldThatIsNotReadIsSaidOnce(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "5")
	w.gang("old", 3, 3)
	w.gang("new", 2, 2)
	for name, loss := range map[string]*v1alpha1.MemberLoss{"old": nil, "new": {Policy: v1alpha1.MemberLossWait}} {
		group := w.groups[name].DeepCopy()
		group.Spec.MemberLoss = loss
		group.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:onMemberLoss":{}}}`)}}
		sources.MarkRemoved(group, group)
		w.group(group)
	}
	calls := w.play(t.Context(), time.Minute)
	w.gone("old-0")
	calls = append(calls, w.play(t.Context(), 10*time.Minute)...)
	if deleted := sent(calls, commit.CallDeleteStarted); len(deleted) > 0 {
		t.Errorf("deleted %q", deleted)
	}
	for name, want := range map[string]int{"old": 1, "new": 0} {
		said := slices.DeleteFunc(notes(calls, name), func(note string) bool { return !strings.HasPrefix(note, "Warning FieldRemoved: spec.onMemberLoss") })
		if len(said) != want {
			t.Errorf("%s: said %q, want %d", name, said, want)
		}
	}
}

func TestGangThatWaitsForMembersIsLeftAlone(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossWait, 0)
	w.gone("mpi-1")
	calls := w.playBy(t.Context(), 2*time.Hour, time.Second)
	if got := sent(calls, commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("deleted %q", got)
	}
	status := w.groups["mpi"].Status
	if status.Phase != v1alpha1.PodGroupDegraded || status.DegradedSince == nil {
		t.Errorf("phase %s since %v", status.Phase, status.DegradedSince)
	}
	w.restarted("mpi-1")
	w.play(t.Context(), 2*time.Second)
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupStarting || status.DegradedSince != nil {
		t.Errorf("phase %s since %v once it is complete again", status.Phase, status.DegradedSince)
	}
}

func TestGangThatCannotBeCompletedIsRestarted(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	w.gone("mpi-1")
	if got := sent(w.play(t.Context(), 58*time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("deleted %q before its time", got)
	}
	w.restart() // since when it is degraded is in its status
	calls := w.play(t.Context(), 5*time.Second)
	if got := sent(calls, commit.CallDeleteStarted); !slices.Equal(got, []string{"mpi-0 n1", "mpi-2 n1"}) {
		t.Fatalf("deleted %q, want what was left", got)
	}
	if notes := events(calls, report.ReasonRestarted); len(notes) != 1 || !strings.Contains(notes[0], "only 2 of 3") {
		t.Errorf("events %q", notes)
	}
	if c := w.condition("mpi"); c.Status != metav1.ConditionFalse || c.Reason != "MembersLost" {
		t.Errorf("condition %+v", c)
	}
	for _, name := range []string{"mpi-0", "mpi-1", "mpi-2"} {
		w.restarted(name)
	}
	w.play(t.Context(), time.Minute)
	status := w.groups["mpi"].Status
	if c := w.condition("mpi"); c.Status != metav1.ConditionTrue || status.DegradedSince != nil {
		t.Errorf("condition %+v, degraded since %v", c, status.DegradedSince)
	}
	if got := sent(w.play(t.Context(), 5*time.Minute), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("deleted %q of the gang that runs again", got)
	}
}

func TestGangThatIsCompletedInTimeIsNotRestarted(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	w.gone("mpi-1")
	w.play(t.Context(), 50*time.Second)
	w.restarted("mpi-1")
	if got := sent(w.playBy(t.Context(), time.Hour, time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("deleted %q", got)
	}
}

// TestRaisedMinimumRestartsNoJob: the gang has lost nothing.
func TestRaisedMinimumRestartsNoJob(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	w.minimum("mpi", 4)
	if got := sent(w.playBy(t.Context(), time.Hour, time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Errorf("deleted %q", got)
	}
	if status := w.groups["mpi"].Status; status.Phase != v1alpha1.PodGroupDegraded || status.DegradedSince != nil {
		t.Errorf("phase %s since %v", status.Phase, status.DegradedSince)
	}
	w.gone("mpi-1")
	if got := sent(w.play(t.Context(), 63*time.Second), commit.CallDeleteStarted); len(got) != 2 {
		t.Errorf("deleted %q after a loss", got)
	}
}

// TestDegradedGangIsCompletedBeforeNewStarts, of whatever priority.
func TestDegradedGangIsCompletedBeforeNewStarts(t *testing.T) {
	w := lossy(t, "", 0)
	w.high("urgent", 1)
	w.gone("mpi-1")
	w.restarted("mpi-1")
	w.play(t.Context(), 2*time.Second)
	if w.pods["mpi-1-restarted"].Spec.NodeName != "n1" || w.pods[types.UID("urgent-0")].Spec.NodeName != "" {
		t.Error("the capacity went to a new start")
	}
}

// TestARestartThatIsDueHoldsReplacementsBackWhileABindIsInFlight: the last member with a node is gone, and the status, which
// would no longer say that the gang is degraded, cannot be written. What is bound now would be deleted with the bind in flight.
func TestARestartThatIsDueHoldsReplacementsBackWhileABindIsInFlight(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	w.gone("mpi-1")
	w.gone("mpi-2")
	w.play(t.Context(), 55*time.Second)
	w.drop = func(call commit.Call) bool { return call.Kind == commit.CallBind && call.Pod.Name == "mpi-1" }
	w.refuseWrites = forbidden
	w.restarted("mpi-1")
	w.play(t.Context(), time.Second)
	w.gone("mpi-0")
	w.play(t.Context(), 5*time.Second)
	w.restarted("mpi-2")
	if got := sent(w.play(t.Context(), 5*time.Second), commit.CallBind); len(got) != 0 {
		t.Errorf("binds %q of a gang that is restarted once the result of the bind is known", got)
	}
}
