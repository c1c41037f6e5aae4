package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
)

func TestHistoryTellsWhatACycleDid(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("gang", 2, 2)
	w.gang("big", 9, 9)
	w.play(t.Context(), time.Second)
	cycles := w.loop.Cycles()
	if !cycles.Leading || cycles.Total == 0 || len(cycles.Items) != int(cycles.Total) {
		t.Fatalf("%d cycles of %d, leading: %v", len(cycles.Items), cycles.Total, cycles.Leading)
	}
	var decided *debugapi.Cycle
	for _, cycle := range cycles.Items {
		if cycle.Decided > 0 {
			decided = cycle
		}
	}
	if decided == nil {
		t.Fatal("no cycle decided anything")
	}
	want := debugapi.Decision{Job: "default/gang", Binds: 2}
	if decided.Binds != 2 || decided.Decided != 1 || decided.Waiting != 1 || decided.Jobs != 2 || decided.Nodes != 1 ||
		!slices.Equal(decided.Decisions, []debugapi.Decision{want}) {
		t.Errorf("cycle %+v, want the decision %+v", decided, want)
	}
	var parts []string
	for _, part := range decided.Parts {
		parts = append(parts, part.Name)
	}
	if want := []string{debugapi.PartSnapshot, "open", "allocate", debugapi.PartSend, "close", debugapi.PartSettle}; !slices.Equal(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
}

// slow is an action that takes two seconds after the one before it has decided.
type slow struct {
	engine.Action
	w *world
}

func (s slow) Execute(session *engine.Session) {
	s.Action.Execute(session)
	s.w.clock.Step(2 * time.Second)
}

// TestSendingIsNoPartOfTheAction that decides: the time it takes is counted on its own, and the action's goes on behind it.
func TestSendingIsNoPartOfTheAction(t *testing.T) {
	w := newWorld(t)
	w.loop.profile.Actions[0] = slow{w.loop.profile.Actions[0], w}
	w.loop.options.Decided = func(model.Decision) { w.clock.Step(time.Second) }
	w.node("n1", "4")
	w.gang("gang", 2, 2)
	w.play(t.Context(), time.Second)
	for _, cycle := range w.loop.Cycles().Items {
		if cycle.Decided == 0 {
			continue
		}
		took := map[string]time.Duration{}
		for _, part := range cycle.Parts {
			took[part.Name] = part.Took.Duration
		}
		if took["allocate"] != 2*time.Second || took[debugapi.PartSend] != time.Second || cycle.Took.Duration != 3*time.Second {
			t.Errorf("took %v of %s, want 2s to allocate and 1s to send", took, cycle.Took.Duration)
		}
		return
	}
	t.Error("no cycle decided anything")
}

// TestNodesShowWhatIsReserved: for which job, how much, and until when it is lent.
func TestNodesShowWhatIsReserved(t *testing.T) {
	w := reserving(t, "1s")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	ends := w.clock.Now().Add(600 * time.Second).UTC()
	w.play(t.Context(), 5*time.Second)
	nodes := w.ask(debugapi.NewSource(w.loop.Inspect, w.clock))
	if len(nodes.Items) != 1 || len(nodes.Items[0].Reserved) != 1 || len(nodes.Items[0].Nominated) != 0 {
		t.Fatalf("%+v", nodes.Items)
	}
	kept := nodes.Items[0].Reserved[0]
	if kept.Job != "default/big" || kept.Resources.Cpu().String() != "1" || kept.LentUntil == nil || !kept.LentUntil.Equal(ends) {
		t.Errorf("%+v, want capacity of default/big that is lent until %s", kept, ends)
	}
	reservations := 0
	for _, cycle := range w.loop.Cycles().Items {
		reservations += cycle.Reservations
		if cycle.Reservations > 0 && cycle.Decisions[0].Reserved != "n1" {
			t.Errorf("decisions %+v", cycle.Decisions)
		}
	}
	if reservations != 1 {
		t.Errorf("%d reservations were made, want 1", reservations)
	}
}

// ask requests the nodes of the loop while it runs.
func (w *world) ask(source debugapi.Source) *debugapi.NodeList {
	w.t.Helper()
	return inspect(w, func() (*debugapi.NodeList, error) { return source.Nodes(w.t.Context()) })
}

// inspect requests a document of the loop while it runs.
func inspect[T any](w *world, request func() (*T, error)) *T {
	w.t.Helper()
	answer := make(chan *T, 1)
	go func() {
		document, err := request()
		if err != nil {
			w.t.Errorf("%v", err)
		}
		answer <- document
	}()
	for {
		select {
		case document := <-answer:
			return document
		case <-w.mailbox.ready:
			w.loop.Step(w.t.Context())
		}
	}
}

// askJobs requests the jobs of a namespace while the loop runs, by name.
func (w *world) askJobs(namespace string) (jobs map[string]debugapi.Job, list *debugapi.JobList) {
	w.t.Helper()
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	list = inspect(w, func() (*debugapi.JobList, error) { return source.Jobs(w.t.Context(), namespace, "") })
	jobs = map[string]debugapi.Job{}
	for _, job := range list.Items {
		jobs[job.Name] = job
	}
	return jobs, list
}

// TestJobsShowWhereAReasonCameFrom: each action that refused the job, in order, and the last one is what its status says.
func TestJobsShowWhereAReasonCameFrom(t *testing.T) {
	w := newWorld(t)
	w.preempting()
	w.node("n1", "2")
	w.gang("big", 3, 3)
	w.gang("other", 3, 3)
	w.gang("small", 1, 1)
	w.play(t.Context(), time.Second)
	jobs, list := w.askJobs("default")
	big := jobs["big"]
	var actions []string
	for _, step := range big.Trail {
		actions = append(actions, step.Action+" "+step.Code)
	}
	if want := []string{"allocate InsufficientResources", "preempt InsufficientResources"}; !list.Leading || !slices.Equal(actions, want) {
		t.Fatalf("refused by %q, want %q", actions, want)
	}
	if last := big.Trail[1].Reason; last != w.condition("big").Message || last != big.Message || last == big.Trail[0].Reason {
		t.Errorf("preempt says %q, the job %q, its status %q", last, big.Message, w.condition("big").Message)
	}
	if big.Phase != "Pending" || big.Needs != 3 || big.Has != 3 || len(big.Members) != 3 || big.Members[0].State != debugapi.MemberWaiting {
		t.Errorf("%+v", big)
	}
	if other := jobs["other"]; other.Turn != "2nd of 2 waiting jobs" || !slices.Equal(other.Behind, []string{"PodGroup default/big"}) {
		t.Errorf("other is %q behind %q", other.Turn, other.Behind)
	}
	small := jobs["small"]
	if len(small.Trail) != 0 || small.Bound != 1 || small.Members[0].Node != "n1" || small.Waits() || small.Turn != "" {
		t.Errorf("a job that has started: %+v", small)
	}
	if none, _ := w.askJobs("elsewhere"); len(none) != 0 {
		t.Errorf("another namespace has %+v", none)
	}
}

func TestNodesShowCapacity(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.node("n2", "2")
	w.gang("gang", 4, 4)
	w.play(t.Context(), time.Second)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	nodes := w.ask(source)
	if !nodes.Leading || len(nodes.Items) != 2 {
		t.Fatalf("%+v", nodes)
	}
	n1 := nodes.Items[0]
	if n1.Name != "n1" || n1.Allocatable.Cpu().String() != "4" || n1.Pods == 0 {
		t.Errorf("n1: %+v", n1)
	}
	idle := n1.Idle.Cpu().MilliValue() + nodes.Items[1].Idle.Cpu().MilliValue()
	if idle != 2000 {
		t.Errorf("%d of 6000 are idle together, want 2000", idle)
	}

	w.node("n3", "1")
	if again := w.ask(source); len(again.Items) != 2 {
		t.Error("the loop was asked again immediately")
	}
	w.play(t.Context(), 2*time.Second)
	if later := w.ask(source); len(later.Items) != 3 {
		t.Error("the copy is old")
	}
}

// TestNodesShowDevices: the devices of a class on each node, what is leaving, and why devices are not counted.
func TestNodesShowDevices(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.node("n2", "4")
	w.mailbox.Event(&cluster.DeviceClassSeen{Class: &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "gpu", ResourceVersion: "1"}}})
	device := func(name string) kube.Device {
		return kube.Device{ID: kube.DeviceID{Driver: "d", Pool: "n1", Device: name}, Classes: []string{"gpu"}}
	}
	w.mailbox.Event(&cluster.DevicesSeen{Devices: &kube.NodeDevices{Node: "n1", Devices: []kube.Device{device("0"), device("1")}}})
	w.mailbox.Event(&cluster.DevicesSeen{Devices: &kube.NodeDevices{Node: "n2", Uncounted: map[string]string{"gpu": "device 0 of pool n2: has counters"}}})
	w.play(t.Context(), time.Second)
	nodes := w.ask(debugapi.NewSource(w.loop.Inspect, w.clock))
	table, err := json.Marshal(nodes.Table())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"2/2"`, "deviceclass.resource.kubernetes.io/gpu is not counted: device 0 of pool n2: has counters"} {
		if !strings.Contains(string(table), want) {
			t.Errorf("%s is not in %s", want, table)
		}
	}
}

// TestQueuesShowTheOrderOfTheNextCycle: which job is tried first in each queue, and which queue, and by what numbers. The
// document is made although nothing has changed since the last cycle, and changes nothing.
func TestQueuesShowTheOrderOfTheNextCycle(t *testing.T) {
	w := newWorld(t)
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: proportion.New}})
	w.node("n1", "8")
	for name, parent := range map[string]string{"a": "", "b": "", "below": "b", "rest": "b"} {
		queue := queueOf("30")
		queue.Name, queue.UID, queue.Spec.Parent, queue.Spec.NamespaceSelector = name, types.UID(name), parent, &metav1.LabelSelector{}
		if name == "b" {
			queue.Spec.Guarantee = queueOf("3").Spec.Limit
		}
		w.queue(queue)
	}
	in := func(queue, name string, members int) {
		w.gang(name, members, members)
		group := w.groups[name].DeepCopy()
		group.Spec.Queue = queue
		w.group(group)
		w.clock.Step(time.Second)
	}
	in("a", "a-first", 6)
	w.play(t.Context(), time.Second)
	in("a", "a-second", 6)
	in("rest", "alone", 6)
	in("below", "below-first", 6)
	in("below", "below-second", 6)
	w.play(t.Context(), time.Minute)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	document := inspect(w, func() (*debugapi.QueueList, error) { return source.Queues(t.Context()) })
	var got []string
	for _, queue := range document.Items {
		got = append(got, fmt.Sprintf("%s %d %s used %s of %s, floor %s, borrowed %s, level %.2f, %d run, %v wait for %s: %s", queue.Name, queue.Turn, queue.Parent,
			queue.Used.Cpu(), queue.Demand.Cpu(), queue.Floor.Cpu(), queue.Borrowed.Cpu(), queue.Levels["cpu"], queue.RunningJobs, queue.WaitingFor, queue.Asked.Cpu(),
			strings.Join(queue.Waiting, ", ")))
	}
	want := []string{
		"a 2  used 6 of 12, floor 0, borrowed 6, level 2.40, 1 run, [{InsufficientResources 1}] wait for 6: PodGroup default/a-second",
		"b 1  used 0 of 18, floor 3, borrowed 0, level 0.00, 0 run, [{InsufficientResources 3}] wait for 18: ",
		"below 2 b used 0 of 12, floor 0, borrowed 0, level 0.00, 0 run, [{InsufficientResources 2}] wait for 12: PodGroup default/below-first, PodGroup default/below-second",
		"rest 1 b used 0 of 6, floor 0, borrowed 0, level 0.00, 0 run, [{InsufficientResources 1}] wait for 6: PodGroup default/alone",
		"default 0  used 0 of 0, floor 0, borrowed 0, level 0.00, 0 run, [] wait for 0: ",
	}
	if !document.Leading || !slices.Equal(got, want) {
		t.Errorf("leading %t, it says\n%s\nwant\n%s", document.Leading, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	jobs, _ := w.askJobs("default")
	wantTurn := "2nd of 2 waiting jobs of queue below; below is 2nd of 2 queues in turn below b; b is 1st of 2 queues in turn"
	if last := jobs["below-second"]; last.Turn != wantTurn || !slices.Equal(last.Behind, []string{"PodGroup default/below-first"}) {
		t.Errorf("turn %q behind %q, want %q", last.Turn, last.Behind, wantTurn)
	}
	if running := jobs["a-first"]; running.Turn != "" {
		t.Errorf("a job that has started has turn %q", running.Turn)
	}
	calls := w.play(t.Context(), time.Hour)
	if n := kinds(calls)[commit.CallQueueStatus]; n != 0 {
		t.Errorf("%d statuses of queues after it was asked for", n)
	}
}

func TestBusyLoopIsNotWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Nodes(ctx); err == nil {
		t.Error("an answer of a loop that does not run")
	}
	w.node("n1", "4")
	if nodes := w.ask(source); len(nodes.Items) != 1 { // who gave up does not keep the others from asking
		t.Errorf("%+v", nodes)
	}
}
