package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/isolcpu"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

const eight = `{"v":1,"gen":1,"source":"isolcpus","isolated":"8-15","online":"0-15","mode":"included","threadsPerCore":1,` +
	`"numa":[{"id":0,"cpus":"8-15","cores":["8","9","10","11","12","13","14","15"]}],"kubelet":{}}`

// newIsolatedWorld has a node with eight isolated CPUs of fourteen.
func newIsolatedWorld(t tester) *world {
	return isolatedWorld(t, isolcpu.Options{BestFit: 1, Avoid: 1})
}

func isolatedWorld(t tester, options isolcpu.Options) *world {
	w := newWorld(t)
	profile := &engine.Profile{
		Actions: []engine.Action{allocate.New()},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}, {Factory: isolcpu.New(options)}}},
	}
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}, Translators: profile.Translators()})
	w.loop = New(state, commit.New(commit.Options{}), profile, w, w.mailbox,
		Options{Clock: w.clock, Verify: true})
	w.isolate("n1", "14", eight)
	return w
}

func (w *world) isolate(name, cpu, topology string) {
	w.node(name, cpu)
	node := w.nodes[name].DeepCopy()
	node.Annotations = map[string]string{isolated.TopologyAnnotation: topology}
	w.meta(node)
	w.nodes[name] = node
	w.mailbox.Event(&cluster.NodeSeen{Node: node})
}

// isolatedPod is a pod that asks for so many isolated CPUs.
func (w *world) isolatedPod(name, cpu string) {
	w.pod(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Annotations: map[string]string{isolated.RequestAnnotation: "true"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "tutti",
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
}

// TestIsolatedPodIsBoundInTheVersionThatWasSeen: one that has changed since is placed again when the change is seen, and not
// before.
func TestIsolatedPodIsBoundInTheVersionThatWasSeen(t *testing.T) {
	w := newIsolatedWorld(t)
	w.isolatedPod("p", "2")
	seen, binds := w.pods["p"].ResourceVersion, 0
	w.refuse = func(call commit.Call) error {
		binds++
		if call.Isolated.ResourceVersion != seen {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New(
			"Precondition failed: ResourceVersion in precondition: "+seen+", ResourceVersion in object meta: 99"))
	}
	w.refuseWrites = func(call commit.Call) error { // they would make another version
		return apierrors.NewForbidden(corev1.Resource("pods"), call.Pod.Name, errors.New("not today"))
	}
	w.play(t.Context(), 3*time.Second)
	if binds != 1 {
		t.Errorf("%d binds of a version that is no more, want one", binds)
	}
	if held := w.loop.state.Snapshot(w.clock.Now()).Node("n1").HeldCPUs(false); !held.Empty() {
		t.Errorf("CPUs %s have no holder", held)
	}
	w.pod(w.pods["p"].DeepCopy())
	calls := w.play(t.Context(), 200*time.Millisecond)
	for _, call := range calls {
		if call.Kind == commit.CallBind {
			a, err := isolated.ParseAssignment(call.Isolated.Annotations[isolated.AssignedAnnotation])
			if err != nil || a.CPUs.String() != "8-9" || a.UID != "p" || a.Node != "n1" || call.Isolated.ResourceVersion == seen {
				t.Errorf("%+v, %v", call, err)
			}
			return
		}
	}
	t.Errorf("it is not bound when the change is seen: %v", kinds(calls))
}

// TestAgentThatIsGoneGetsNoIsolatedPods: those that run stay, and the next one starts as soon as the agent is back.
func TestAgentThatIsGoneGetsNoIsolatedPods(t *testing.T) {
	w := newIsolatedWorld(t)
	w.loop.state = cluster.New(cluster.Options{
		SchedulerNames: []string{"tutti"}, AgentLeases: cluster.LeasesWatched, Translators: w.loop.profile.Translators(),
	})
	renew := func() {
		seconds, at := int32(40), metav1.NewMicroTime(w.clock.Now())
		lease := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "tutti-system", Name: "isolcpu-n1", UID: "lease"},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &at, LeaseDurationSeconds: &seconds},
		}
		w.meta(lease)
		w.mailbox.Event(&cluster.LeaseSeen{Lease: lease})
	}
	w.isolatedPod("p", "2")
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallBind]; n != 0 {
		t.Fatalf("%d binds without an agent", n)
	}
	if refusal := w.loop.refusals[model.JobKey{Namespace: "default", Name: "p", Source: model.SourcePod}]; refusal == nil ||
		!strings.Contains(refusal.String(), "isolcpu agent not ready: it has no valid Lease isolcpu-NODE in the namespace of --agent-lease-namespace") {
		t.Errorf("it waits because %s", refusal)
	}
	renew()
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallBind]; n != 1 {
		t.Errorf("%d binds when the agent is there, want 1", n)
	}
	w.play(t.Context(), 45*time.Second)
	w.isolatedPod("q", "2")
	calls := kinds(w.play(t.Context(), time.Second))
	if calls[commit.CallBind] != 0 || calls[commit.CallEvict]+calls[commit.CallDelete] != 0 {
		t.Errorf("calls %v after the agent has gone", calls)
	}
	renew()
	if n := kinds(w.play(t.Context(), time.Second))[commit.CallBind]; n != 1 {
		t.Errorf("%d binds when the agent is back, want 1", n)
	}
}

// TestConflictsAreToldOnce, by an event and a measurement, and no pod is evicted that holds no CPUs of other pods.
func TestConflictsAreToldOnce(t *testing.T) {
	w := newIsolatedWorld(t)
	registry := prometheus.NewRegistry()
	measured, err := telemetry.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.loop.options.Metrics = measured
	w.isolatedPod("p", "2")
	bound := w.pods["p"].DeepCopy()
	bound.Spec.NodeName = "n1"
	w.pod(bound)
	told := 0
	for _, call := range w.play(t.Context(), 2*time.Second) {
		if call.Kind == commit.CallEvent && call.Write.(*commit.Event).Reason == report.ReasonConflict {
			told++
			if note := call.Write.(*commit.Event).Note; !strings.Contains(note, "without any on n1") {
				t.Errorf("the event says %q", note)
			}
		} else if call.Kind != commit.CallEvent {
			t.Errorf("call %+v", call)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() == "isolcpu_conflicts_total" {
			for _, metric := range family.GetMetric() {
				if n := metric.GetCounter().GetValue(); n > 0 {
					counted[metric.GetLabel()[0].GetValue()] = n
				}
			}
		}
	}
	if told != 1 || len(counted) != 1 || counted["unassigned"] != 1 {
		t.Errorf("%d events, measured %v", told, counted)
	}
}

// inConflict adds a gang of two whose members were bound one second after the other, the second to a CPU of the first, as by
// another scheduler.
func (w *world) inConflict() {
	w.gang("g", 0, 2)
	for i, cpus := range []string{"8-9", "9-10"} {
		w.isolatedPod(fmt.Sprintf("g-%d", i), "2")
		pod := w.pods[types.UID(fmt.Sprintf("g-%d", i))].DeepCopy()
		pod.Labels, pod.Spec.NodeName = map[string]string{v1alpha1.LabelPodGroup: "g"}, "n1"
		pod.Annotations[isolated.AssignedAnnotation] = fmt.Sprintf(
			`{"v":1,"node":"n1","uid":"g-%d","cpus":%q,"numa":"0","containers":{"main":%q},"gen":1}`, i, cpus, cpus)
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(w.clock.Now().Add(time.Duration(i) * time.Second)),
		}}
		w.pod(pod)
	}
}

// conflictEvents returns the events about conflicts, sorted by their objects.
func conflictEvents(calls []commit.Call) []string {
	var told []string
	for _, call := range calls {
		if event, is := call.Write.(*commit.Event); is && strings.HasPrefix(event.Reason, report.ReasonConflict) {
			told = append(told, event.Regarding.Kind+" "+event.Regarding.Name+" "+event.Reason+": "+event.Note)
		}
	}
	slices.Sort(told)
	return told
}

// TestWhoCanNeverRunIsEvicted: the pod that was bound second is evicted, once, and events on it and on its group say why.
func TestWhoCanNeverRunIsEvicted(t *testing.T) {
	w := newIsolatedWorld(t)
	w.inConflict()
	calls := w.play(t.Context(), 2*time.Second)
	var evicted []string
	for _, call := range calls {
		if call.Kind == commit.CallEvict {
			evicted = append(evicted, call.Pod.Name)
		}
	}
	if !slices.Equal(evicted, []string{"g-1"}) {
		t.Errorf("%q were evicted, want g-1", evicted)
	}
	want := []string{
		"Pod g-1 IsolatedCPUConflict: it holds CPUs 9, which pod default/g-0 was given before on n1",
		"Pod g-1 IsolatedCPUConflictEnded: Evicted from node n1: it holds CPUs 9, which pod default/g-0 was given before",
		"PodGroup g IsolatedCPUConflictEnded: Evicted pod g-1 from node n1: it holds CPUs 9, which pod default/g-0 was given before",
	}
	if told := conflictEvents(calls); !slices.Equal(told, want) {
		t.Errorf("events %q, want %q", told, want)
	}
	if calls := kinds(w.play(t.Context(), time.Minute)); calls[commit.CallEvict] > 0 {
		t.Errorf("calls %v when it is over", calls)
	}
}

// TestWhoMayNotBeEvictedIsTriedAgain, later and later, and as soon as it may be it goes.
func TestWhoMayNotBeEvictedIsTriedAgain(t *testing.T) {
	w := newIsolatedWorld(t)
	w.inConflict()
	w.refusePlan = overBudget
	w.play(t.Context(), 5*time.Second)
	tries := kinds(w.calls)[commit.CallEvict]
	w.play(t.Context(), time.Minute)
	if later := kinds(w.calls)[commit.CallEvict]; tries != 1 || later < 1 || later > 4 {
		t.Errorf("%d tries at first and %d within a minute, want one and a few", tries, later)
	}
	w.refusePlan = nil
	if w.play(t.Context(), time.Minute); w.pods["g-1"] != nil && w.pods["g-1"].DeletionTimestamp == nil {
		t.Error("it stays when it may be evicted")
	}
}

// TestNoSystemPodIsEvictedForAConflict: a system-critical pod stays, and is reported.
func TestNoSystemPodIsEvictedForAConflict(t *testing.T) {
	w := newIsolatedWorld(t)
	w.inConflict()
	second := w.pods["g-1"].DeepCopy()
	second.Spec.Priority = new(int32(2_000_000_000))
	w.pod(second)
	calls := w.play(t.Context(), 5*time.Second)
	if n := kinds(calls)[commit.CallEvict]; n != 0 {
		t.Errorf("%d were evicted", n)
	}
	if told := conflictEvents(calls); len(told) != 1 || !strings.HasPrefix(told[0], "Pod g-1 IsolatedCPUConflict: ") {
		t.Errorf("events %q", told)
	}
}

// TestConflictsAreOnlyReported where that is asked for.
func TestConflictsAreOnlyReported(t *testing.T) {
	w := isolatedWorld(t, isolcpu.Options{BestFit: 1, Avoid: 1, Report: true})
	w.inConflict()
	calls := w.play(t.Context(), 5*time.Second)
	if n := kinds(calls)[commit.CallEvict]; n != 0 {
		t.Errorf("%d were evicted", n)
	}
	if told := conflictEvents(calls); len(told) != 1 || !strings.HasPrefix(told[0], "Pod g-1 IsolatedCPUConflict: ") {
		t.Errorf("events %q", told)
	}
}
