package scheduler

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/actions/backfill"
)

// reserving is a world in which a gang that has waited for so long gets capacity reserved.
func reserving(t *testing.T, reserveAfter string) *world {
	w := newWorld(t)
	arguments := config.NewArguments("action backfill", map[string]string{"reserveAfter": reserveAfter, "reserveShare": "100"})
	w.loop.profile.Actions = append(w.loop.profile.Actions, backfill.New(arguments.Reader()))
	return w
}

// running gives a gang of one its node, on which it runs from now on for so many seconds.
func (w *world) running(name, node string, seconds int64) {
	w.gang(name, 1, 1)
	began := metav1.NewTime(w.clock.Now())
	pod := w.pods[types.UID(name+"-0")].DeepCopy()
	pod.Spec.NodeName, pod.Spec.ActiveDeadlineSeconds = node, &seconds
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &began
	w.pod(pod)
}

// statuses returns what was written about a group, in order.
func statuses(calls []commit.Call, group string) []v1alpha1.PodGroupStatus {
	var all []v1alpha1.PodGroupStatus
	for _, call := range calls {
		if call.Kind == commit.CallGroupStatus && call.Write.(*commit.GroupStatus).Name == group {
			all = append(all, call.Write.(*commit.GroupStatus).Status)
		}
	}
	return all
}

// TestTimeAloneMakesAReservation: in a cluster in which nothing happens a gang gets its capacity when it is due, has it in
// its status by one write, and starts there.
func TestTimeAloneMakesAReservation(t *testing.T) {
	w := reserving(t, "150s")
	came := w.clock.Now()
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	waiting := statuses(w.play(t.Context(), 2*time.Second), "big")
	if len(waiting) != 1 || waiting[0].Reservation != nil || waiting[0].WaitingSince == nil || !waiting[0].WaitingSince.Time.Equal(came) {
		t.Fatalf("written at first: %+v", waiting)
	}
	if early := statuses(w.play(t.Context(), 147*time.Second), "big"); len(early) != 0 {
		t.Fatalf("written before it is due: %+v", early)
	}
	told := statuses(w.play(t.Context(), 3*time.Second), "big")
	if len(told) != 1 || told[0].Reservation == nil {
		t.Fatalf("written when it is due: %+v", told)
	}
	r := told[0].Reservation
	if len(r.Nodes) != 1 || r.Nodes[0].Name != "n1" || !r.Since.Time.Equal(came.Add(150*time.Second)) ||
		r.ExpectedStart == nil || !r.ExpectedStart.Time.Equal(came.Add(600*time.Second)) {
		t.Errorf("reserved %+v", r)
	}
	if c := w.condition("big"); c.Reason != "InsufficientResources" || !told[0].WaitingSince.Time.Equal(came) {
		t.Errorf("condition %+v, waiting since %s", c, told[0].WaitingSince)
	}
	if rest := w.play(t.Context(), 2*time.Minute); len(rest) != 0 {
		t.Errorf("%d calls for an unchanged cluster, the first %+v", len(rest), rest[0])
	}
	w.inPhase("first-0", corev1.PodSucceeded)
	started := statuses(w.play(t.Context(), 2*time.Second), "big")
	if len(started) != 1 || started[0].Reservation != nil || started[0].WaitingSince != nil || w.pods["big-0"].Spec.NodeName != "n1" {
		t.Errorf("written when it starts: %+v", started)
	}
	if left := w.loop.state.Snapshot(w.clock.Now()).Held(); len(left) > 0 {
		t.Errorf("kept at rest: %v", left)
	}
}

// TestAnExpectationThatFailsIsTakenBack: that an end has passed without one is noticed though nothing else happens.
func TestAnExpectationThatFailsIsTakenBack(t *testing.T) {
	w := reserving(t, "0s")
	w.node("n1", "1")
	w.running("first", "n1", 20)
	w.gang("big", 1, 1)
	w.play(t.Context(), 75*time.Second) // it is believed for a while that the pod is about to end
	if r := w.groups["big"].Status.Reservation; r == nil || r.ExpectedStart == nil {
		t.Fatalf("reserved %+v", r)
	}
	w.play(t.Context(), 10*time.Second)
	if r := w.groups["big"].Status.Reservation; r == nil || r.ExpectedStart != nil {
		t.Errorf("reserved %+v", r)
	}
}

// TestAReservationIsMeasured: how many there are, and how much is reserved.
func TestAReservationIsMeasured(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	arguments := config.NewArguments("action backfill", map[string]string{"reserveAfter": "0", "reserveShare": "100"})
	w.loop.profile.Actions = append(w.loop.profile.Actions, backfill.New(arguments.Reader()))
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	w.play(t.Context(), 2*time.Second)
	expectMetrics(t, sum, map[string]float64{"tutti_reservations": 1, "tutti_reserved": 2, "tutti_reserved resource=cpu": 1})
}

// TestWhatAReservationReleasesIsUsedInTheNextCycle, although no event follows.
func TestWhatAReservationReleasesIsUsedInTheNextCycle(t *testing.T) {
	w := reserving(t, "3s")
	w.node("n1", "3")
	w.running("first", "n1", 600)
	w.gangOf("big", "3")
	w.play(t.Context(), 5*time.Second)
	if w.groups["big"].Status.Reservation == nil {
		t.Fatal("nothing is reserved")
	}
	w.gang("small", 1, 1)
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("small"); c == nil || c.Reason != "Reserved" {
		t.Fatalf("condition %+v", c)
	}
	foreign := w.pods["small-0"].DeepCopy()
	foreign.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "foreign", UID: "foreign"}
	foreign.Spec.SchedulerName, foreign.Spec.NodeName = "another", "n1"
	w.pod(foreign) // beside it, the gang of three cpus can never start
	w.play(t.Context(), 200*time.Millisecond)
	if node := w.pods["small-0"].Spec.NodeName; node != "n1" {
		t.Errorf("small is on %q, and its condition is %+v", node, w.condition("small"))
	}
}

// TestAnotherLeaderKeepsTheReservation: it reads from the group what is reserved and since when it waits, and writes nothing.
func TestAnotherLeaderKeepsTheReservation(t *testing.T) {
	w := reserving(t, "1m")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	w.play(t.Context(), 90*time.Second)
	before := w.groups["big"].Status.DeepCopy()
	if before.Reservation == nil {
		t.Fatal("nothing is reserved")
	}
	next := reserving(t, "1m")
	next.clock.SetTime(w.clock.Now())
	next.node("n1", "1")
	for _, group := range w.groups {
		next.group(group)
	}
	for _, pod := range w.pods {
		next.pod(cluster.StripPod(pod))
	}
	if calls := next.play(t.Context(), 10*time.Second); len(calls) != 0 {
		t.Errorf("%d calls, the first %+v", len(calls), calls[0])
	}
	if kept := next.loop.state.Snapshot(next.clock.Now()).Held(); len(kept) != 1 || kept[0].Node != "n1" {
		t.Errorf("kept: %v", kept)
	}
}

// TestAReservationIsShownAtOnce: it does not wait for the time that words wait for which change often.
func TestAReservationIsShownAtOnce(t *testing.T) {
	w := reserving(t, "3s")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	w.play(t.Context(), 5*time.Second)
	if w.groups["big"].Status.Reservation == nil {
		t.Error("nothing is reserved")
	}
}

// TestAnUnknownEndCostsLittleAtRest: when it is unknown when the reserved capacity will be free, other capacity is looked for
// after an hour, and then each time after twice as long. So a day in which nothing happens costs a handful of writes; the last
// says that the reservation is given up.
func TestAnUnknownEndCostsLittleAtRest(t *testing.T) {
	w := reserving(t, "1m")
	w.node("n1", "1")
	w.running("first", "n1", 1)
	w.gang("big", 1, 1)
	w.play(t.Context(), 2*time.Minute)
	chosen := statuses(w.play(t.Context(), 24*time.Hour), "big")
	if n := len(chosen); n < 3 || n > 6 {
		t.Errorf("%d writes in a day: %+v", n, chosen)
	}
}

// TestARefusedBindDoesNotGiveTheReservationToAnother: while a gang starts in its capacity no other job gets a reservation.
// So the gang still has its own when the binds fail.
func TestARefusedBindDoesNotGiveTheReservationToAnother(t *testing.T) {
	w := reserving(t, "0s")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	w.play(t.Context(), 2*time.Second)
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "big-0" {
			return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, errors.New("not today"))
		}
		return nil
	}
	w.inPhase("first-0", corev1.PodSucceeded)
	w.gang("other", 1, 1)
	w.play(t.Context(), 5*time.Second)
	if c := w.condition("big"); c.Reason != "BindFailed" || w.groups["big"].Status.Reservation == nil {
		t.Errorf("nothing is reserved for the one that has waited, condition %+v", c)
	}
	w.refuse = nil
	w.play(t.Context(), 30*time.Second)
	if w.pods["big-0"].Spec.NodeName != "n1" || w.groups["other"].Status.Reservation == nil {
		t.Errorf("big is on %q, reserved for other is %v", w.pods["big-0"].Spec.NodeName, w.groups["other"].Status.Reservation)
	}
}
