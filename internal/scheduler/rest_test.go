package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The tests of this file are about what happens around the start of a gang: its end, refusals by the API server, and what
// is left at rest.

func (w *world) inPhase(name string, phase corev1.PodPhase) {
	pod := w.pods[types.UID(name)].DeepCopy()
	pod.Status.Phase = phase
	w.pod(pod)
}

func (w *world) gone(name string) {
	pod := w.pods[types.UID(name)].DeepCopy()
	w.meta(pod)
	delete(w.pods, pod.UID)
	w.mailbox.Event(&cluster.PodSeen{Pod: pod, Gone: true})
}

func forbidden(call commit.Call) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, errors.New("not today"))
}

func TestSucceededGangStaysSucceededWhileItsPodsAreCleanedUp(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	w.play(t.Context(), time.Second)
	for i := range 3 {
		w.inPhase(fmt.Sprintf("mpi-%d", i), corev1.PodSucceeded)
	}
	w.play(t.Context(), 20*time.Second)
	for i := range 3 {
		w.gone(fmt.Sprintf("mpi-%d", i))
		if n := kinds(w.play(t.Context(), 20*time.Second))[commit.CallEvent]; n != 0 {
			t.Errorf("%d events after %d pods were deleted", n, i+1)
		}
		if phase := w.groups["mpi"].Status.Phase; phase != v1alpha1.PodGroupSucceeded {
			t.Errorf("phase %s after %d pods were deleted", phase, i+1)
		}
	}
	if len(w.loop.refusals) != 0 {
		t.Errorf("a finished gang counts as waiting: %v", w.loop.refusals)
	}
	w.member("mpi", 7)
	w.play(t.Context(), 2*time.Second)
	if phase := w.groups["mpi"].Status.Phase; phase != v1alpha1.PodGroupPending {
		t.Errorf("phase %s with a new member, want Pending", phase)
	}
}

func TestRaisedMinimumIsNoLoss(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Second)
	group := w.groups["mpi"].DeepCopy()
	group.Spec.MinMember, group.Generation = 5, 2
	w.group(group)
	w.play(t.Context(), 20*time.Second)
	c := w.condition("mpi")
	if c == nil || c.Reason != "Degraded" || c.Message != "below its minimum: needs 5, 2 exist" {
		t.Errorf("condition %+v", c)
	}
}

func TestOneFailedRoundIsOneFailure(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "80")
	until := w.clock.Now().Add(100 * time.Millisecond)
	w.refuse = func(call commit.Call) error {
		if w.clock.Now().Before(until) {
			return forbidden(call)
		}
		return nil
	}
	w.gang("mpi", 8, 8)
	w.play(t.Context(), 3*time.Second)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v three seconds after a hiccup of a tenth of one", c)
	}
}

func TestHoldEndsWithTheJob(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "80")
	w.refuse = forbidden
	w.gang("mpi", 2, 2)
	w.play(t.Context(), time.Minute)
	w.refuse = nil
	w.mailbox.Event(&cluster.GroupSeen{Group: w.groups["mpi"], Gone: true})
	w.gone("mpi-0")
	w.gone("mpi-1")
	w.play(t.Context(), time.Second)
	if w.loop.sizes().delays != 0 {
		t.Error("the hold is kept after its job is gone")
	}
}

func TestRefusedStatusWritesRest(t *testing.T) {
	w := newWorld(t)
	w.refuseWrites = forbidden
	w.node("n1", "2")
	w.gang("mpi", 3, 3)
	counts := kinds(w.play(t.Context(), 10*time.Minute))
	if n := counts[commit.CallGroupStatus]; n < 3 || n > 10 {
		t.Errorf("%d status writes in ten minutes, want a few, further and further apart", n)
	}
	if counts[commit.CallEvent] != 2 { // of the group, and of its oldest member
		t.Errorf("%d events for one reason", counts[commit.CallEvent])
	}
	w.refuseWrites = nil
	w.play(t.Context(), 11*time.Minute)
	if c := w.condition("mpi"); c == nil || c.Reason != "InsufficientResources" {
		t.Errorf("condition %+v after the API server gave in", c)
	}
}

func TestStatusThatIsOverwrittenIsWrittenAgain(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.gang("mpi", 3, 3)
	w.play(t.Context(), time.Second)
	group := w.groups["mpi"].DeepCopy()
	group.Status = v1alpha1.PodGroupStatus{}
	w.group(group)
	w.play(t.Context(), time.Minute)
	if c := w.condition("mpi"); c == nil || c.Reason != "InsufficientResources" {
		t.Errorf("condition %+v a minute after it was wiped", c)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.loop.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func assigned(call commit.Call) error {
	return apierrors.NewConflict(corev1.Resource("pods/binding"), call.Pod.Name, errors.New("pod is already assigned to node"))
}

func jobKey(name string) model.JobKey { return model.JobKey{Namespace: "default", Name: name} }

// TestAGroupCreatedAgainAfterItsMembersEndedHasACondition: no plugin is asked about a job that has ended, and yet the
// job waits.
func TestAGroupCreatedAgainAfterItsMembersEndedHasACondition(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 2, 3)
	for i := range 2 {
		w.inPhase(fmt.Sprintf("mpi-%d", i), corev1.PodSucceeded)
	}
	w.play(t.Context(), 20*time.Second)
	c := w.condition("mpi")
	if c == nil || c.Status != "False" || c.Reason != string(model.NotEnoughMembers) || c.Message != "needs 3, and the 2 that exist have ended" {
		t.Errorf("condition %+v", c)
	}
	if n := len(w.play(t.Context(), time.Minute)); n > 0 {
		t.Errorf("%d calls at rest", n)
	}
}

// TestMembersThatComeAreSaidSoon: a PodGroup is mostly made before its pods, and how many are missing must not be reported
// late because of that.
func TestMembersThatComeAreSaidSoon(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 0, 4)
	w.play(t.Context(), time.Second)
	said := func() string { return w.condition("mpi").Message }
	if said() != "needs 4, 0 exist; no pod with the schedulerName \"tutti\" names it: a pod does by the label scheduling.tutti.dev/pod-group: mpi" {
		t.Fatalf("said at first: %s", said())
	}
	for i := range 3 {
		w.member("mpi", i)
	}
	w.play(t.Context(), 1500*time.Millisecond)
	status := w.groups["mpi"].Status
	if said() != "needs 4, 3 exist" || status.Members != 3 {
		t.Errorf("with three of four members for a while: %d members, %s", status.Members, said())
	}
}

// TestGroupsOfOtherSchedulersAreLeftAlone: nothing is written about a group that has another scheduler, also while members of
// ours come and go.
// Only the pod of ours that names it says why it waits. A group that no pod names yet says so, once; where no scheduler is named,
// by the scheduler of the default name alone.
func TestGroupsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("new", 0, 1)
	w.gang("theirs", 0, 1)
	for _, name := range []string{"new", "theirs"} {
		group := w.groups[name].DeepCopy()
		group.Spec.SchedulerName = ""
		w.group(group)
	}
	their := func(i int, change func(*corev1.Pod)) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("theirs-%d", i), UID: types.UID(fmt.Sprintf("theirs-%d", i)),
			Labels: map[string]string{v1alpha1.LabelPodGroup: "theirs"},
		}, Spec: corev1.PodSpec{SchedulerName: "other"}}
		change(pod)
		w.pod(pod)
	}
	their(0, func(*corev1.Pod) {})
	if got := kinds(w.play(t.Context(), time.Minute)); got[commit.CallGroupStatus] != 1 || got[commit.CallPodCondition] > 0 {
		t.Errorf("a group without pods: %v, want one status", got)
	}
	if status := w.groups["new"].Status; status.Phase != v1alpha1.PodGroupPending || status.SchedulerName != "tutti" ||
		!strings.HasPrefix(w.condition("new").Message, "needs 1, 0 exist; no pod with the schedulerName \"tutti\" names it") {
		t.Errorf("without pods: %+v", status)
	}
	calls := w.play(t.Context(), time.Minute)
	their(0, func(pod *corev1.Pod) { pod.Spec.NodeName = "n1" })
	their(1, func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "n1", corev1.PodRunning })
	calls = append(calls, w.play(t.Context(), time.Minute)...)
	if len(calls) > 0 {
		t.Fatalf("calls about groups of no or another scheduler: %+v", calls)
	}

	w.member("theirs", 9)
	if got := kinds(w.play(t.Context(), time.Minute)); got[commit.CallGroupStatus] > 0 || got[commit.CallPodCondition] != 1 {
		t.Errorf("a pod of ours names their group: %v, want its condition alone", got)
	}
	if message := w.pods["theirs-9"].Status.Conditions[0].Message; !strings.Contains(message, `"other"`) || !strings.Contains(message, `"tutti"`) {
		t.Errorf("the condition of the pod says %q, want both schedulers", message)
	}

	w.member("new", 0)
	w.play(t.Context(), time.Second)
	if status := w.groups["new"].Status; status.Phase != v1alpha1.PodGroupStarting || status.SchedulerName != "tutti" {
		t.Errorf("with a member of ours: phase %q, written by %q", status.Phase, status.SchedulerName)
	}
	w.gone("new-0")
	w.play(t.Context(), time.Second)
	if status := w.groups["new"].Status; status.Members != 0 || status.Phase != v1alpha1.PodGroupPending {
		t.Errorf("without members again: %d members, phase %q", status.Members, status.Phase)
	}
}
