package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestHistoryTellsWhatACycleDid(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.gang("gang", 2, 2)
	w.gang("big", 9, 9)
	w.play(t.Context(), time.Second)
	cycles := w.loop.Cycles()
	if !cycles.Leading || cycles.Total == 0 || len(cycles.Cycles) != int(cycles.Total) {
		t.Fatalf("%d cycles of %d, leading: %v", len(cycles.Cycles), cycles.Total, cycles.Leading)
	}
	var decided *debugapi.Cycle
	for _, cycle := range cycles.Cycles {
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
	if want := []string{partSnapshot, "open", "allocate", partSend, "close", partSettle}; !slices.Equal(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
}

// slow is an action that takes two seconds after the one before it has decided.
type slow struct {
	framework.Action
	w *world
}

func (s slow) Execute(session *framework.Session) {
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
	for _, cycle := range w.loop.Cycles().Cycles {
		if cycle.Decided == 0 {
			continue
		}
		took := map[string]time.Duration{}
		for _, part := range cycle.Parts {
			took[part.Name] = part.Took.Duration
		}
		if took["allocate"] != 2*time.Second || took[partSend] != time.Second || cycle.Took.Duration != 3*time.Second {
			t.Errorf("took %v of %s, want 2s to allocate and 1s to send", took, cycle.Took.Duration)
		}
		return
	}
	t.Error("no cycle decided anything")
}

func TestHistoryForgets(t *testing.T) {
	h := &history{}
	for range rememberedCycles + 7 {
		h.add(&debugapi.Cycle{})
	}
	document := h.document()
	if document.Total != rememberedCycles+7 || len(document.Cycles) != rememberedCycles {
		t.Fatalf("%d cycles of %d", len(document.Cycles), document.Total)
	}
	for i, cycle := range document.Cycles {
		if cycle.Number != document.Total-uint64(i) {
			t.Errorf("place %d has cycle %d", i, cycle.Number)
		}
	}
}

// TestStopwatchLosesNoTime: the parts of a cycle take as long as the cycle, each of them what was spent in it.
func TestStopwatchLosesNoTime(t *testing.T) {
	w := newWorld(t)
	watch := newStopwatch(w.clock, w.clock.Now())
	spend := func(seconds int) { w.clock.Step(time.Duration(seconds) * time.Second) }
	spend(1)
	watch.begin("allocate")
	spend(2)
	before := watch.begin(partSend)
	spend(4)
	watch.begin(before)
	spend(8)
	watch.begin(partSettle)
	spend(16)
	if took := watch.stop(w.loop.state.Snapshot(w.clock.Now()), 3); took != 31*time.Second {
		t.Errorf("took %s, want 31s", took)
	}
	got := map[string]time.Duration{}
	for _, part := range watch.cycle.Parts {
		got[part.Name] = part.Took.Duration
	}
	for part, seconds := range map[string]int{partSnapshot: 1, "allocate": 10, partSend: 4, partSettle: 16} {
		if want := time.Duration(seconds) * time.Second; got[part] != want {
			t.Errorf("%s took %s, want %s", part, got[part], want)
		}
	}
	if len(got) != 4 || watch.cycle.Waiting != 3 {
		t.Errorf("parts %v, waiting %d", got, watch.cycle.Waiting)
	}
}

// TestBooksShowWhatIsReserved: for whom, how much, and up to when it is lent.
func TestBooksShowWhatIsReserved(t *testing.T) {
	w := reserving(t, "1s")
	w.node("n1", "1")
	w.running("first", "n1", 600)
	w.gang("big", 1, 1)
	ends := w.clock.Now().Add(600 * time.Second).UTC()
	w.play(t.Context(), 5*time.Second)
	nodes := w.ask(NewBookkeeper(w.loop))
	if len(nodes.Nodes) != 1 || len(nodes.Nodes[0].Reserved) != 1 || len(nodes.Nodes[0].Promised) != 0 {
		t.Fatalf("%+v", nodes.Nodes)
	}
	kept := nodes.Nodes[0].Reserved[0]
	if kept.Job != "default/big" || kept.Resources.Cpu().String() != "1" || kept.AvailableUntil == nil || !kept.AvailableUntil.Equal(ends) {
		t.Errorf("%+v, want room of default/big that is lent until %s", kept, ends)
	}
	reservations := 0
	for _, cycle := range w.loop.Cycles().Cycles {
		reservations += cycle.Reservations
		if cycle.Reservations > 0 && cycle.Decisions[0].Reserved != "n1" {
			t.Errorf("decisions %+v", cycle.Decisions)
		}
	}
	if reservations != 1 {
		t.Errorf("%d reservations were made, want 1", reservations)
	}
}

// ask puts a question to the loop while it runs.
func (w *world) ask(keeper *NodeInspector) *debugapi.Nodes {
	w.t.Helper()
	answer := make(chan *debugapi.Nodes, 1)
	go func() {
		nodes, err := keeper.Nodes(w.t.Context())
		if err != nil {
			w.t.Errorf("nodes: %v", err)
		}
		answer <- nodes
	}()
	for {
		select {
		case nodes := <-answer:
			return nodes
		case <-w.mailbox.ready:
			w.loop.step(w.t.Context())
		}
	}
}

func TestBooksOfNodes(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "4")
	w.node("n2", "2")
	w.gang("gang", 4, 4)
	w.play(t.Context(), time.Second)
	keeper := NewBookkeeper(w.loop)
	nodes := w.ask(keeper)
	if !nodes.Leading || len(nodes.Nodes) != 2 {
		t.Fatalf("%+v", nodes)
	}
	n1 := nodes.Nodes[0]
	if n1.Name != "n1" || n1.Allocatable.Cpu().String() != "4" || n1.Pods == 0 {
		t.Errorf("n1: %+v", n1)
	}
	idle := n1.Idle.Cpu().MilliValue() + nodes.Nodes[1].Idle.Cpu().MilliValue()
	if idle != 2000 {
		t.Errorf("%d of 6000 are idle together, want 2000", idle)
	}

	w.node("n3", "1")
	if again := w.ask(keeper); len(again.Nodes) != 2 {
		t.Error("the loop was asked again at once")
	}
	w.play(t.Context(), maxReportAge+time.Second)
	if later := w.ask(keeper); len(later.Nodes) != 3 {
		t.Error("the books are old")
	}
}

func TestBusyLoopIsNotWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	keeper := NewBookkeeper(w.loop)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keeper.Nodes(ctx); err == nil {
		t.Error("an answer of a loop that does not run")
	}
	w.node("n1", "4")
	if nodes := w.ask(keeper); len(nodes.Nodes) != 1 { // who gave up does not keep the others from asking
		t.Errorf("%+v", nodes)
	}
}
