package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// world is the loop with a virtual clock and an API server made of maps.
type world struct {
	t       tester
	clock   *clocktesting.FakeClock
	loop    *Scheduler
	mailbox *Mailbox
	version int
	nodes   map[string]*corev1.Node
	pods    map[types.UID]*corev1.Pod
	groups  map[string]*v1alpha1.PodGroup
	queues  map[string]*v1alpha1.Queue
	foreign map[string]*sources.Spec // of scheduling.volcano.sh
	calls   []commit.Call
	// grace is the grace of the members that are created from now on, in seconds; nil is as the API server has it.
	grace *int64
	// refuse answers a bind with an error; nil answers all with yes.
	refuse func(commit.Call) error
	// refuseWrites answers a status or condition with an error; nil answers all with yes.
	refuseWrites func(commit.Call) error
	// refusePlan answers a nomination or an eviction with an error; nil answers all with yes. A call that drop reports has no
	// effect and gets no answer.
	refusePlan func(commit.Call) error
	drop       func(commit.Call) bool
	// refuseUndo answers the deletion of a pod that was bound, refuseRead a look at a pod, with an error; nil answers all with yes.
	refuseUndo, refuseRead func(commit.Call) error
	// late reports which versions of pods the watch does not show yet; nil is none.
	late func(*corev1.Pod) bool
}

// tester is a test, or one of many attempts at a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

func newWorld(t tester) *world {
	w := &world{
		t: t, clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)), mailbox: NewMailbox(),
		nodes: map[string]*corev1.Node{}, pods: map[types.UID]*corev1.Pod{}, groups: map[string]*v1alpha1.PodGroup{},
		queues: map[string]*v1alpha1.Queue{}, foreign: map[string]*sources.Spec{},
	}
	profile := &engine.Profile{
		Actions: []engine.Action{allocate.New()},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
	}
	w.loop = New(cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}}), commit.New(commit.Options{}), profile,
		w, w.mailbox, Options{Clock: w.clock, Verify: true})
	w.mailbox.Lead()
	return w
}

// Send answers a call as an API server would, and tells the watch.
func (w *world) Send(call commit.Call) {
	if w.drop != nil && w.drop(call) {
		return
	}
	w.calls = append(w.calls, call)
	w.mailbox.Reply(commit.Reply{ID: call.ID, Err: w.serve(call)})
}

func (w *world) serve(call commit.Call) error {
	writes := call.Kind == commit.CallGroupStatus || call.Kind == commit.CallQueueStatus || call.Kind == commit.CallForeignStatus || call.Kind == commit.CallPodCondition
	if writes && w.refuseWrites != nil {
		return w.refuseWrites(call)
	}
	switch call.Kind {
	case commit.CallBind:
		if w.refuse != nil {
			if err := w.refuse(call); err != nil {
				return err
			}
		}
		pod := w.pods[call.Pod.UID].DeepCopy()
		if pod.Spec.NodeName != "" {
			w.t.Errorf("pod %s is bound twice", call.Pod)
		}
		pod.Spec.NodeName, pod.Status.NominatedNodeName = call.Node, ""
		for key, value := range call.Annotations() {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()).Rfc3339Copy(),
		}}
		w.pod(pod)
	case commit.CallGetPod:
		return w.read(call)
	case commit.CallDeleteStarted:
		if w.refuseUndo != nil {
			if err := w.refuseUndo(call); err != nil {
				return err
			}
		}
		w.gone(string(call.Pod.UID))
	case commit.CallNominate, commit.CallEvict, commit.CallSetCondition, commit.CallDelete:
		return w.servePlan(call)
	case commit.CallPodCondition:
		pod := w.pods[call.Pod.UID].DeepCopy()
		pod.Status.Conditions = []corev1.PodCondition{call.Write.(*commit.PodCondition).Condition}
		w.pod(pod)
	case commit.CallDeleteGroup:
		return w.serveDeletion(call)
	case commit.CallGroupStatus:
		group := w.groups[call.Write.(*commit.GroupStatus).Name].DeepCopy()
		group.Status = call.Write.(*commit.GroupStatus).Status
		w.group(group)
	case commit.CallForeignStatus:
		return w.serveForeign(call.Write.(*commit.ForeignStatus))
	case commit.CallQueueStatus:
		queue := w.queues[call.Write.(*commit.QueueStatus).Name].DeepCopy()
		queue.Status = call.Write.(*commit.QueueStatus).Status
		w.queue(queue)
	}
	return nil
}

func (w *world) read(call commit.Call) error {
	if w.refuseRead != nil {
		if err := w.refuseRead(call); err != nil {
			return err
		}
	}
	switch pod := w.pods[call.Pod.UID]; {
	case pod == nil:
		return apierrors.NewNotFound(corev1.Resource("pods"), call.Pod.Name)
	case pod.Spec.NodeName == "":
		return commit.ErrNotBound
	case pod.Spec.NodeName != call.Node:
		return commit.ErrElsewhere
	}
	return nil
}

func (w *world) meta(object metav1.Object) {
	w.version++
	object.SetResourceVersion(fmt.Sprint(w.version))
}

func (w *world) pod(pod *corev1.Pod) {
	w.meta(pod)
	w.pods[pod.UID] = pod
	if w.late == nil || !w.late(pod) {
		w.mailbox.Event(&cluster.PodSeen{Pod: pod})
	}
}

func (w *world) group(group *v1alpha1.PodGroup) {
	w.meta(group)
	w.groups[group.Name] = group
	w.mailbox.Event(&cluster.GroupSeen{Group: group})
}

func (w *world) queue(queue *v1alpha1.Queue) {
	w.meta(queue)
	w.queues[queue.Name] = queue
	w.mailbox.Event(&cluster.QueueSeen{Queue: queue})
}

func (w *world) node(name, cpu string) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
	w.meta(node)
	w.nodes[name] = node
	w.mailbox.Event(&cluster.NodeSeen{Node: node})
}

func (w *world) gang(name string, members, minMember int) {
	w.group(&v1alpha1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("group-" + name), Generation: 1},
		Spec:       v1alpha1.PodGroupSpec{MinMember: int32(minMember), SchedulerName: "tutti"},
	})
	for i := range members {
		w.member(name, i)
	}
}

// gangOf is a gang of one member with a request of its own.
func (w *world) gangOf(name, cpu string) {
	w.gang(name, 0, 1)
	w.memberOf(name, 0, cpu)
}

func (w *world) member(group string, i int) { w.memberOf(group, i, "1") }

func (w *world) memberOf(group string, i int, cpu string) {
	name := fmt.Sprintf("%s-%d", group, i)
	w.pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name),
			Labels: map[string]string{v1alpha1.LabelPodGroup: group},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "tutti", TerminationGracePeriodSeconds: w.grace,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
}

// play lets the loop run for a while of virtual time and returns the calls it made.
func (w *world) play(ctx context.Context, span time.Duration) []commit.Call {
	return w.playBy(ctx, span, 10*time.Millisecond)
}

// playBy is play at a coarser pace, for long spans.
func (w *world) playBy(ctx context.Context, span, tick time.Duration) []commit.Call {
	w.calls = nil
	for range span / tick {
		w.loop.Step(ctx)
		w.clock.Step(tick)
	}
	return w.calls
}

func kinds(calls []commit.Call) map[commit.Kind]int {
	counts := map[commit.Kind]int{}
	for _, call := range calls {
		counts[call.Kind]++
	}
	return counts
}

func (w *world) condition(group string) *metav1.Condition {
	return sources.Explanation(w.groups[group].Status.Conditions)
}

func TestGangStartsWithOneWritePerPod(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	counts := kinds(w.play(t.Context(), 2*time.Second))
	if counts[commit.CallBind] != 3 || counts[commit.CallPodCondition] != 0 {
		t.Errorf("calls %v, want 3 binds and no pod condition", counts)
	}
	if counts[commit.CallGroupStatus] != 1 {
		t.Errorf("the group was written %d times, want once: it was scheduled immediately", counts[commit.CallGroupStatus])
	}
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue || w.groups["mpi"].Status.Phase != "Starting" {
		t.Errorf("condition %+v, phase %s", c, w.groups["mpi"].Status.Phase)
	}
	if !w.loop.machine.Idle() {
		t.Error("something is still kept in the commit machine at rest")
	}
}

func TestWaitingGangIsToldOnceAndThenNothingIsWritten(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.gang("big", 3, 3)
	counts := kinds(w.play(t.Context(), 2*time.Second))
	if counts[commit.CallBind] != 0 || counts[commit.CallGroupStatus] != 1 || counts[commit.CallPodCondition] != 3 ||
		counts[commit.CallEvent] != 2 {
		t.Errorf("calls %v, want one status, three conditions, an event of the group, one of its oldest member, and no bind", counts)
	}
	c := w.condition("big")
	if c == nil || c.Reason != "InsufficientResources" || c.Message != "needs 3, 2 would fit; 1 node lacks cpu; 1 member short of 1 cpu; closest: node n1, missing 1 cpu" {
		t.Errorf("condition %+v", c)
	}
	if first := kinds(w.play(t.Context(), time.Minute)); len(first) != 1 || first[commit.CallEvent] != 2 {
		t.Errorf("calls %v, want an event of each other member's first refusal", first)
	}
	if later := w.play(t.Context(), time.Minute); len(later) != 0 {
		t.Errorf("%d calls for an unchanged cluster, the first %+v", len(later), later[0])
	}
}

func TestJobBehindTheBlockedGangGetsTheRoom(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	w.gang("a-big", 3, 3)
	w.gang("b-small", 2, 2)
	w.play(t.Context(), 2*time.Second)
	if c := w.condition("b-small"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("the small gang's condition is %+v", c)
	}
}

func TestRefusedBindIsTriedAgainWithBackOff(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-1" {
			return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, errors.New("not today"))
		}
		return nil
	}
	w.gang("mpi", 3, 3)
	counts := kinds(w.play(t.Context(), 10*time.Second))
	if n := counts[commit.CallBind]; n < 4 || n > 8 {
		t.Errorf("%d binds in ten seconds, want a few and no storm", n)
	}
	if c := w.condition("mpi"); c == nil || c.Reason != "BindFailed" || c.Status != metav1.ConditionFalse {
		t.Errorf("condition %+v, want BindFailed", c)
	}
	w.refuse = nil
	w.play(t.Context(), 30*time.Second)
	if c := w.condition("mpi"); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("condition %+v after the API server gave in", c)
	}
}

func TestStandbyFollowsAndDecidesNothing(t *testing.T) {
	w := newWorld(t)
	w.mailbox.take() // the Lease belongs to another process
	w.node("n1", "8")
	w.gang("mpi", 3, 3)
	if calls := w.play(t.Context(), time.Second); len(calls) != 0 {
		t.Fatalf("a standby made %d calls", len(calls))
	}
	w.mailbox.Lead()
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallBind]; n != 3 {
		t.Errorf("%d binds after taking over, want 3", n)
	}
}

func TestCountsFollowAtMostOnceASecond(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "100")
	w.gang("wide", 50, 50)
	w.play(t.Context(), 2*time.Second)
	writes := 0
	for i := range 50 {
		pod := w.pods[types.UID(fmt.Sprintf("wide-%d", i))].DeepCopy()
		pod.Status.Phase = corev1.PodRunning
		w.pod(pod)
		writes += kinds(w.play(t.Context(), 100*time.Millisecond))[commit.CallGroupStatus]
	}
	writes += kinds(w.play(t.Context(), 2*time.Second))[commit.CallGroupStatus]
	if writes < 2 || writes > 8 {
		t.Errorf("%d status writes while 50 pods started within five seconds", writes)
	}
	if status := w.groups["wide"].Status; status.Running != 50 || status.Phase != v1alpha1.PodGroupRunning {
		t.Errorf("status %+v", status)
	}
}

// TestBindOfAPodThatIsGoneIsNoStorm while the watch does not say so yet; when it does, no job waits any longer.
func TestBindOfAPodThatIsGoneIsNoStorm(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.refuse = func(call commit.Call) error {
		if call.Pod.Name == "mpi-1" {
			return apierrors.NewNotFound(corev1.Resource("pods"), call.Pod.Name)
		}
		return nil
	}
	w.gang("mpi", 3, 3)
	if n := kinds(w.play(t.Context(), 10*time.Second))[commit.CallBind]; n != 3 {
		t.Errorf("%d binds, want one of each", n)
	}
	w.gone("mpi-1")
	w.member("mpi", 3)
	if n := kinds(w.play(t.Context(), 200*time.Millisecond))[commit.CallBind]; n != 1 {
		t.Errorf("%d binds in place of the one that is gone", n)
	}
	w.play(t.Context(), time.Minute)
	if w.loop.sizes().uncertain != 0 {
		t.Error("uncertain binds are kept at rest")
	}
}
