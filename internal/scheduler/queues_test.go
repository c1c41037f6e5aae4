package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/actions/reclaim"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
)

// queueOf is the default queue with a limit of CPU.
func queueOf(cpu string) *v1alpha1.Queue {
	return &v1alpha1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultQueue, UID: types.UID("queue-default"), Generation: 1},
		Spec:       v1alpha1.QueueSpec{Limit: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}
}

// wantQueue compares the status of the default queue.
func (w *world) wantQueue(active, cpu string, running, waiting int32) {
	w.t.Helper()
	status := w.queues[v1alpha1.DefaultQueue].Status
	used := status.Used[corev1.ResourceCPU]
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionActive)
	if condition == nil || condition.Reason != active || used.String() != cpu || status.Running != running || status.Waiting != waiting {
		w.t.Errorf("the queue says %+v, want %s, used %s, running %d, waiting %d", status, active, cpu, running, waiting)
	}
}

func TestTheStatusOfAQueueFollowsAndRests(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.queue(queueOf("3"))
	w.gang("first", 3, 3)
	w.play(t.Context(), time.Second)
	w.gang("second", 2, 2)
	w.gang("empty", 0, 2) // no pod names it: it does not wait to start
	w.play(t.Context(), 40*time.Second)
	w.wantQueue("Active", "3", 1, 1)
	status := w.queues[v1alpha1.DefaultQueue].Status
	if at := status.CountedAt; at == nil || w.clock.Since(at.Time) > 40*time.Second || !slices.Equal(status.WaitingFor, []v1alpha1.WaitingReason{{Reason: "QueueLimit", Jobs: 1}}) {
		t.Errorf("the queue says that its jobs wait for %v, counted at %v", status.WaitingFor, at)
	}
	for _, name := range []string{"first", "second"} {
		if queue := w.groups[name].Status.Queue; queue != v1alpha1.DefaultQueue {
			t.Errorf("group %s says that it is in queue %q", name, queue)
		}
	}
	if later := w.play(t.Context(), 5*time.Minute); len(later) != 0 {
		t.Errorf("%d calls at rest, the first %+v", len(later), later[0])
	}
	raised := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	raised.Spec.Paused, raised.Generation = true, 2
	raised.Spec.Limit[corev1.ResourceCPU] = resource.MustParse("6")
	w.queue(raised)
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallQueueStatus]; n != 1 {
		t.Errorf("%d writes that the queue is paused, want 1 immediately", n)
	}
	w.wantQueue("Paused", "3", 1, 1)
	again := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	again.Spec.Paused, again.Generation = false, 3
	w.queue(again)
	w.play(t.Context(), 40*time.Second)
	w.wantQueue("Active", "5", 2, 0)
}

// TestAStandbyWritesNoStatusOfAQueue: and the next leader nothing that is there already.
func TestAStandbyWritesNoStatusOfAQueue(t *testing.T) {
	w := newWorld(t)
	w.mailbox.take() // the Lease belongs to another process
	w.node("n1", "8")
	w.queue(queueOf("3"))
	if calls := w.play(t.Context(), time.Second); len(calls) != 0 {
		t.Fatalf("a standby made %d calls", len(calls))
	}
	w.mailbox.Lead()
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallQueueStatus]; n != 1 {
		t.Errorf("%d writes after taking over, want 1", n)
	}
	next := newWorld(t)
	next.node("n1", "8")
	next.queue(w.queues[v1alpha1.DefaultQueue])
	if n := kinds(next.play(t.Context(), time.Minute))[commit.CallQueueStatus]; n != 0 {
		t.Errorf("%d writes of the next leader, want none", n)
	}
}

func TestARefusedStatusOfAQueueRests(t *testing.T) {
	w := newWorld(t)
	w.refuseWrites = forbidden
	w.node("n1", "8")
	w.queue(queueOf("3"))
	if n := kinds(w.playBy(t.Context(), time.Hour, 100*time.Millisecond))[commit.CallQueueStatus]; n < 3 || n > 15 {
		t.Errorf("%d writes in an hour in which they are refused", n)
	}
	w.refuseWrites = nil
	w.mailbox.Event(&cluster.QueueSeen{Queue: w.queues[v1alpha1.DefaultQueue], Gone: true})
	delete(w.queues, v1alpha1.DefaultQueue)
	if calls := w.playBy(t.Context(), time.Hour, 100*time.Millisecond); len(calls) != 0 {
		t.Errorf("%d calls about a queue that is gone", len(calls))
	}
}

// TestADegradedGangOfAQueueThatStartsNothingIsNotRestarted: it could not start again. It is, once the queue is active.
func TestADegradedGangOfAQueueThatStartsNothingIsNotRestarted(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	paused := queueOf("3")
	paused.Spec.Paused = true
	w.queue(paused)
	w.gone("mpi-1")
	if got := sent(w.playBy(t.Context(), time.Hour, time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("deleted %q while the queue is paused", got)
	}
	resumed := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	resumed.Spec.Paused, resumed.Generation = false, 2
	w.queue(resumed)
	if got := sent(w.play(t.Context(), 5*time.Second), commit.CallDeleteStarted); len(got) != 2 {
		t.Errorf("deleted %q once the queue is active, want the two that are left", got)
	}
}

// TestTheStatusOfAQueueHasItsShareAndItsLastStart: the next leader knows when a job of the queue last started.
func TestTheStatusOfAQueueHasItsShareAndItsLastStart(t *testing.T) {
	shared := func() *world {
		w := newWorld(t)
		w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: proportion.New}})
		w.node("n1", "8")
		return w
	}
	w := shared()
	w.queue(queueOf("30"))
	w.play(t.Context(), time.Second)
	if status := w.queues[v1alpha1.DefaultQueue].Status; status.LastStart != nil || len(status.Share) != 0 {
		t.Fatalf("the queue says %+v before anything has started", status)
	}
	started := w.clock.Now()
	w.gang("first", 6, 6)
	w.gang("second", 6, 6)
	w.play(t.Context(), 40*time.Second)
	status := w.queues[v1alpha1.DefaultQueue].Status
	if cpu := status.Share[corev1.ResourceCPU]; status.LastStart == nil || status.LastStart.Before(&metav1.MicroTime{Time: started}) ||
		status.LastStart.After(started.Add(5*time.Second)) || cpu.String() != "8" {
		t.Fatalf("the queue says %+v, want a start at %s and 8 cpu", status, started)
	}
	next := shared()
	next.queue(w.queues[v1alpha1.DefaultQueue])
	next.play(t.Context(), time.Second)
	if got := next.loop.state.Snapshot(next.clock.Now()).Queue(v1alpha1.DefaultQueue).LastStart; !got.Equal(status.LastStart.Time) {
		t.Errorf("the next leader takes the last start for %s, not %s", got, status.LastStart)
	}
}

// TestTheConditionOfAQueueFollowsTheConfiguration: a guarantee that no plugin and no action looks at is not shown as if it had an
// effect.
func TestTheConditionOfAQueueFollowsTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	queue := queueOf("6")
	queue.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	w.queue(queue)
	complete := profileOf(engine.TierPlugin{Factory: proportion.New})
	complete.Actions = append(complete.Actions, reclaim.New(reclaim.Options{}))
	for _, step := range []struct {
		name       string
		profile    *engine.Profile
		order      bool
		guarantees string
	}{
		{"as at the start", nil, true, "no plugin"},
		{"with both", complete, false, ""},
		{"without reclaim", profileOf(engine.TierPlugin{Factory: proportion.New}), false, "no action"},
		{"without proportion", &engine.Profile{Actions: complete.Actions, Tiers: profileOf().Tiers}, true, "no plugin"},
	} {
		if step.profile != nil {
			w.reconfigure(step.profile)
		}
		w.play(t.Context(), 40*time.Second)
		conditions := w.queues[v1alpha1.DefaultQueue].Status.Conditions
		active, met := meta.FindStatusCondition(conditions, v1alpha1.ConditionActive), meta.FindStatusCondition(conditions, v1alpha1.ConditionGuaranteeMet)
		if active == nil || met == nil || strings.Contains(active.Message, "take turns") != step.order ||
			!strings.HasPrefix(met.Message, step.guarantees) || (met.Reason == "NotEnforced") != (step.guarantees != "") {
			t.Errorf("%s: %+v %+v", step.name, active, met)
		}
	}
}

// TestTheStatusOfAQueueSaysWhetherItsGuaranteeIsMet, and nothing more at rest; that it is not enforced, when the configuration
// changes.
func TestTheStatusOfAQueueSaysWhetherItsGuaranteeIsMet(t *testing.T) {
	w := newWorld(t)
	bare := w.loop.profile
	full := *bare
	full.Tiers = append(slices.Clone(bare.Tiers), engine.Tier{{Factory: proportion.New}})
	full.Actions = append(slices.Clone(bare.Actions), reclaim.New(reclaim.Options{Plan: preempt.Options{Budget: 1000}}))
	w.reconfigure(&full)
	w.node("n1", "8")
	w.node("n2", "8")
	guaranteed := queueOf("100")
	guaranteed.Spec.Guarantee = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16")}
	w.queue(guaranteed)
	says := func() string {
		condition := meta.FindStatusCondition(w.queues[v1alpha1.DefaultQueue].Status.Conditions, v1alpha1.ConditionGuaranteeMet)
		return string(condition.Status) + " " + condition.Reason
	}
	w.play(t.Context(), time.Minute)
	if got := says(); got != "True GuaranteeMet" {
		t.Errorf("with no job the queue says %s", got)
	}
	for _, name := range []string{"one", "two", "three"} {
		w.gangOf(name, "5")
	}
	w.play(t.Context(), time.Minute)
	if got := says(); got != "False Fragmentation" {
		t.Errorf("with 6 of 16 CPUs idle, but not 5 on a node, the queue says %s", got)
	}
	if n := kinds(w.play(t.Context(), time.Hour))[commit.CallQueueStatus]; n != 0 {
		t.Errorf("%d statuses of the queue at rest", n)
	}
	share := func() string { return w.queues[v1alpha1.DefaultQueue].Status.Share.Cpu().String() }
	if got := share(); got != "0" {
		t.Errorf("the share is %s of what is not contended", got)
	}
	w.gangOf("four", "5")
	w.play(t.Context(), time.Minute)
	if got := share(); got != "16" || says() != "False Fragmentation" {
		t.Errorf("the share is %s, want 16; the queue says %s", got, says())
	}
	w.reconfigure(bare)
	w.play(t.Context(), time.Minute)
	if got := share(); got != "0" || says() != "Unknown NotEnforced" {
		t.Errorf("without the plugin the share is %s, and the queue says %s", got, says())
	}
}

// TestThePodsOfAQueueSayWhetherANodeWouldHelp: those that their queue does not let start do not say Unschedulable, and those that
// find no capacity below the limit do.
func TestThePodsOfAQueueSayWhetherANodeWouldHelp(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "8")
	w.queue(queueOf("3"))
	w.gang("first", 3, 3)
	w.gang("second", 2, 2)
	expect := func(when, pod, want string) {
		t.Helper()
		w.play(t.Context(), time.Minute)
		if got := w.told(pod); got == nil || got.Reason != want {
			t.Errorf("%s %s says %+v, want %s", when, pod, got, want)
		}
	}
	expect("above the limit", "second-0", "QueueLimit")
	raised := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	raised.Spec.Limit[corev1.ResourceCPU], raised.Generation = resource.MustParse("100"), 2
	w.queue(raised)
	w.gang("large", 9, 9)
	expect("below the limit", "large-8", corev1.PodReasonUnschedulable)
	paused := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	paused.Spec.Paused, paused.Generation = true, 3
	w.queue(paused)
	expect("in a paused queue", "large-8", "QueuePaused")
	resumed := w.queues[v1alpha1.DefaultQueue].DeepCopy()
	resumed.Spec.Paused, resumed.Generation = false, 4
	w.queue(resumed)
	expect("in a queue that is active again", "large-8", corev1.PodReasonUnschedulable)
}

// TestStatusesOfAThousandQueuesAreTenASecond: never more in any second, while more of them change than that; each has its turn.
// Once nothing changes any more they become true, and then nothing is written.
func TestStatusesOfAThousandQueuesAreTenASecond(t *testing.T) {
	const queues, perSecond, tick = 1000, 10, 100 * time.Millisecond
	w := newWorld(t)
	for i := range 10 {
		w.node(fmt.Sprintf("n%d", i), "110")
	}
	for i := range queues {
		name := fmt.Sprintf("q%03d", i)
		w.queue(&v1alpha1.Queue{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("queue-" + name), Generation: 1},
			Spec:       v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
		})
	}
	written := map[string]int{}
	var lately []int // writes of each tick
	started := 0
	busy := func(changes int) {
		for range time.Second / tick {
			for range changes {
				group := fmt.Sprintf("g%d", started)
				w.group(&v1alpha1.PodGroup{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: group, UID: types.UID("group-" + group), Generation: 1},
					Spec:       v1alpha1.PodGroupSpec{MinMember: 1, SchedulerName: "tutti", Queue: fmt.Sprintf("q%03d", started%queues)},
				})
				w.member(group, 0)
				started++
			}
			lately = append(lately, 0)
			for _, call := range w.playBy(t.Context(), tick, tick) {
				if call.Kind == commit.CallQueueStatus {
					written[call.Write.(*commit.QueueStatus).Name]++
					lately[len(lately)-1]++
				}
			}
			sum := 0
			for _, n := range lately[max(0, len(lately)-int(time.Second/tick)):] {
				sum += n
			}
			if sum > perSecond {
				t.Fatalf("%d statuses of queues in the second before %s", sum, w.clock.Now())
			}
		}
	}
	for range 20 {
		busy(2) // each in a queue of its own
	}
	if n := len(written); n < 8*20*perSecond/10 {
		t.Errorf("%d queues were written in 20 seconds", n)
	}
	for range queues/perSecond + 60 {
		busy(0)
	}
	wrong := 0
	for name, queue := range w.queues {
		if has := name < fmt.Sprintf("q%03d", started); written[name] == 0 || written[name] > 2 || (queue.Status.Running == 1) != has {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d queues were not written once or twice, or are not true", wrong)
	}
	if later := w.playBy(t.Context(), 10*time.Minute, time.Second); len(later) != 0 {
		t.Errorf("%d calls at rest, the first %+v", len(later), later[0])
	}
}

// TestQueuesTakeTurnsAfterAKill that comes before the status of a queue says what has started: B A, and then B again, whether the
// gangs run or have ended meanwhile.
func TestQueuesTakeTurnsAfterAKill(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := newWorld(t)
		queues := func(w *world) {
			for _, name := range []string{"a", "b"} {
				w.queue(&v1alpha1.Queue{
					ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1},
					Spec:       v1alpha1.QueueSpec{NamespaceSelector: &metav1.LabelSelector{}},
				})
			}
		}
		start := func(w *world, name, queue string) {
			w.gang(name, 0, 2)
			group := w.groups[name].DeepCopy()
			group.Spec.Queue = queue
			w.group(group)
			w.member(name, 0)
			w.member(name, 1)
		}
		w.node("n1", "4")
		queues(w)
		start(w, "b1", "b")
		w.play(t.Context(), 5*time.Second)
		start(w, "a1", "a")
		w.play(t.Context(), 5*time.Second)
		if n := w.boundPods(); n != 4 {
			t.Fatalf("%d pods are bound", n)
		}
		for _, name := range []string{"a1-0", "a1-1", "b1-0", "b1-1"} {
			if ended {
				w.change(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
			} else if strings.HasPrefix(name, "b1") {
				w.change(name, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
			}
		}
		w.play(t.Context(), time.Second)

		next := w.next(t) // its queues have no status
		for name := range w.groups {
			next.group(w.groups[name].DeepCopy())
		}
		queues(next)
		if !ended {
			next.node("n2", "2")
		} else {
			next.node("n1", "2")
		}
		start(next, "a2", "a") // of the first queue by name: without the starts before it would be first
		start(next, "b2", "b")
		next.play(t.Context(), 2*time.Second)
		if got := next.pods["b2-0"].Spec.NodeName; got == "" || next.pods["a2-0"].Spec.NodeName != "" {
			t.Errorf("ended %t: b2 is on %q, a2 on %q", ended, got, next.pods["a2-0"].Spec.NodeName)
		}
	}
}
