package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/pkg/actions/reclaim"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
)

// atOnce is a loop that no goroutine runs: a test steps it, and a scrape in between is answered immediately.
type atOnce struct{ *Scheduler }

func (a atOnce) Survey(deliver func(*telemetry.Survey)) {
	a.Scheduler.Survey(deliver)
	letters := a.mailbox.take()
	for _, read := range letters.inspections {
		read(debugapi.Inspected{Snapshot: a.state.Snapshot(a.options.Clock.Now())})
	}
	letters.inspections = nil
	a.mailbox.put(func(in *inbox) { *in = letters })
}

func TestWhatWaitsIsCounted(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.node("n1", "4")
	w.gang("runs", 2, 2)
	w.gang("big", 9, 9)
	w.gang("made-early", 0, 2) // has no pods: nothing waits
	w.gang("short", 1, 2)
	w.change("short-0", func(pod *corev1.Pod) { pod.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(-time.Hour)) })
	w.gang("gated", 1, 1)
	w.change("gated-0", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} })
	w.play(t.Context(), time.Second)
	w.runAll()
	w.play(t.Context(), 10*time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_waiting_jobs reason=InsufficientResources": 1,
		"tutti_waiting_jobs reason=NotEnoughMembers":      1, "tutti_waiting_jobs": 3, // with the gated one
		"tutti_oldest_waiting_seconds reason=NotEnoughMembers":      3611,
		"tutti_oldest_waiting_seconds reason=InsufficientResources": 11,
		"tutti_podgroups phase=Running":                             1, "tutti_podgroups phase=Pending": 4, "tutti_podgroups phase=Degraded": 0,
		"tutti_unscheduled_pods": 10, "tutti_members": 13, "tutti_members state=running": 2, "tutti_members state=gated": 1,
		"tutti_members state=pending": 10, "tutti_started_gangs_total": 1, "tutti_start_to_running_seconds": 1,
		"tutti_snapshot_objects kind=node": 1, "tutti_snapshot_objects kind=job": 5, "tutti_snapshot_objects kind=pod": 13,
		"tutti_mailbox_length": 0, "tutti_loop_step_running_seconds": 0,
	})
	if n := sum(metrics.Dimensions); n < 4 {
		t.Errorf("%v dimensions", n)
	}
	if ended := sum(metrics.LastStep); sum(metrics.StepSeconds) == 0 || w.clock.Since(time.Unix(int64(ended), 0)) > 2*time.Second {
		t.Errorf("the last step ended at %v", ended)
	}
}

// TestNominatedCapacityIsCounted, and the pods that do not go.
func TestNominatedCapacityIsCounted(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.preempting()
	w.node("n1", "1")
	w.low("low", "n1")
	w.high("high", 1)
	w.drop = func(call commit.Call) bool { return call.Kind == commit.CallEvict } // it has no answer
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_nominated resource=cpu": 1, "tutti_members state=nominated": 1, "tutti_stuck_victims": 0,
	})
}

// hanging is a loop that began a step and never ends it.
type hanging struct{ began time.Time }

func (hanging) Survey(func(*telemetry.Survey))    {}
func (h hanging) Steps() (began, ended time.Time) { return h.began, h.began.Add(-time.Second) }
func (hanging) MailboxLength() int                { return 7 }

// TestAHangingLoopIsMeasured: a scrape shows for how long the loop has been in its step.
func TestAHangingLoopIsMeasured(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	state := telemetry.NewState(hanging{clock.Now().Add(-time.Minute)}, clock)
	registry := prometheus.NewRegistry()
	registry.MustRegister(state)
	gathered := make(chan []string, 1)
	go func() {
		var names []string
		families, _ := registry.Gather()
		for _, family := range families {
			if value := family.GetMetric()[0].GetGauge().GetValue(); value == 60 || value == 939 || value == 7 {
				names = append(names, family.GetName())
			}
		}
		gathered <- names
	}()
	for !clock.HasWaiters() {
		<-time.NewTimer(time.Millisecond).C
	}
	clock.Step(time.Second)
	want := []string{string(metrics.LastStep), string(metrics.StepRunning), string(metrics.MailboxLength)}
	if got := <-gathered; !slices.Equal(got, want) {
		t.Errorf("%q have their values, want %q", got, want)
	}
}

// TestQueuesAreCounted, as long as they exist.
func TestQueuesAreCounted(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: proportion.New}})
	w.node("n1", "8")
	queue := queueOf("30")
	queue.Spec.Guarantee = queueOf("14").Spec.Limit
	w.queue(queue)
	w.gang("runs", 6, 6)
	w.gang("waits", 6, 6)
	w.play(t.Context(), time.Second)
	w.runAll()
	w.play(t.Context(), 10*time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_queue_used queue=default resource=cpu": 6, "tutti_queue_limit queue=default resource=cpu": 30,
		"tutti_queue_guarantee queue=default resource=cpu": 14, "tutti_queue_share queue=default resource=cpu": 8,
		"tutti_queue_jobs queue=default state=running": 1, "tutti_queue_jobs queue=default state=waiting": 1,
		"tutti_queue_demand queue=default resource=cpu": 12, "tutti_queue_guarantee_unmet": 0,
	})
	w.loop.profile.Actions = append(w.loop.profile.Actions, reclaim.New(reclaim.Options{}))
	if unmet := sum(metrics.QueueUnmet, "queue=default", "reason="+model.UnmetOversubscribed); unmet != 1 {
		t.Errorf("the guarantee of 14 of 8 cores counts as unmet %v times, want 1", unmet)
	}
	if waits := sum(metrics.QueueOldestWait); waits < 10 || waits > 12 {
		t.Errorf("a job has waited for %v seconds, want 11", waits)
	}
	w.mailbox.Event(&cluster.QueueSeen{Queue: w.queues[v1alpha1.DefaultQueue], Gone: true})
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_queue_used": 0, "tutti_queue_limit": 0, "tutti_queue_share": 0, "tutti_queue_jobs": 0, "tutti_queue_demand": 0,
		"tutti_queue_oldest_wait_seconds": 0,
	})
}

// TestOfVeryManyQueuesTheTopmostAreCounted: the number of series stays bounded, and what they count is whole.
func TestOfVeryManyQueuesTheTopmostAreCounted(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.node("n1", "8")
	top := queueOf("30")
	top.Name, top.UID = "top", "top"
	w.queue(top)
	for i := range mostQueues {
		below := queueOf("30")
		below.Name, below.UID, below.Spec.Parent = fmt.Sprintf("a%d", i), types.UID(fmt.Sprintf("a%d", i)), "top"
		below.Spec.NamespaceSelector = &metav1.LabelSelector{}
		w.queue(below)
	}
	w.gang("runs", 6, 6)
	inQueue := w.groups["runs"].DeepCopy()
	inQueue.Spec.Queue = "a7"
	w.group(inQueue)
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_queue_limit": 30, "tutti_queue_used queue=top resource=cpu": 6, "tutti_queue_jobs": 1, // and the default queue, without a job
	})
}
