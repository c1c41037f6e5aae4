package scheduler

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/isolcpu"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// profileOf makes a profile with these plugins beside the two that every world has.
func profileOf(more ...engine.TierPlugin) *engine.Profile {
	return &engine.Profile{
		Actions: []engine.Action{allocate.New()},
		Tiers:   []engine.Tier{append(engine.Tier{{Factory: priority.New}, {Factory: gang.New}}, more...)},
	}
}

func withIsolated() *engine.Profile {
	return profileOf(engine.TierPlugin{Factory: isolcpu.New(isolcpu.Options{BestFit: 1, Avoid: 1})})
}

// reconfigure hands the loop a profile, as the configuration would.
func (w *world) reconfigure(profile *engine.Profile) {
	w.mailbox.Reconfigure(func() *engine.Profile { return profile })
}

// TestAnotherConfigurationIsLiveAtOnce: what nodes offer is worked out again, and who waited is looked at again, although
// nothing has changed in the cluster; nothing is what it changes when it leads to no profile.
func TestAnotherConfigurationIsLiveAtOnce(t *testing.T) {
	w := newIsolatedWorld(t) // a node with 6 ordinary CPUs, and 8 that are isolated
	w.gang("ten", 10, 10)
	if n := kinds(w.play(t.Context(), 20*time.Second))[commit.CallBind]; n != 0 {
		t.Fatalf("%d binds on 6 CPUs", n)
	}
	w.reconfigure(nil)
	if calls := w.play(t.Context(), 20*time.Second); len(calls) != 0 {
		t.Errorf("no profile leads to %d calls, the first %+v", len(calls), calls[0])
	}
	w.reconfigure(profileOf()) // to which all CPUs are ordinary
	if n := kinds(w.play(t.Context(), 100*time.Millisecond))[commit.CallBind]; n != 10 {
		t.Fatalf("%d binds within 100 ms, want 10", n)
	}
	w.play(t.Context(), time.Second)
	w.reconfigure(withIsolated()) // to which the node has 4 pods too many
	w.gang("one", 1, 1)
	if n := kinds(w.play(t.Context(), 5*time.Second))[commit.CallBind]; n != 0 {
		t.Errorf("%d binds on a node without capacity", n)
	}
	w.reconfigure(profileOf())
	if n := kinds(w.play(t.Context(), 100*time.Millisecond))[commit.CallBind]; n != 1 {
		t.Errorf("%d binds, want 1", n)
	}
}

// TestAnotherConfigurationLeavesWhatIsOnItsWay: binds without an answer stay assumed, and no other pod gets their
// capacity.
func TestAnotherConfigurationLeavesWhatIsOnItsWay(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "3")
	w.gang("first", 3, 3)
	sent := 0
	w.drop = func(call commit.Call) bool {
		if call.Kind == commit.CallBind {
			sent++
		}
		return call.Kind == commit.CallBind
	}
	w.play(t.Context(), 100*time.Millisecond)
	w.gang("second", 3, 3)
	w.reconfigure(profileOf())
	w.play(t.Context(), time.Second)
	if sent != 3 {
		t.Errorf("%d binds were sent, want the 3 of the first gang", sent)
	}
	if c := w.condition("second"); c == nil || c.Reason != "InsufficientResources" {
		t.Errorf("the second gang: %+v, want that it waits for capacity", c)
	}
}

// TestAnotherConfigurationBeforeTheElection: one who waits for the Lease leads with what came last.
func TestAnotherConfigurationBeforeTheElection(t *testing.T) {
	w := newIsolatedWorld(t)
	w.mailbox = NewMailbox()
	w.loop.mailbox = w.mailbox
	w.isolate("n1", "14", eight)
	w.gang("ten", 10, 10)
	w.play(t.Context(), time.Second)
	w.reconfigure(withIsolated())
	w.reconfigure(profileOf())
	w.play(t.Context(), time.Second)
	w.mailbox.Lead()
	if n := kinds(w.play(t.Context(), 100*time.Millisecond))[commit.CallBind]; n != 10 {
		t.Errorf("%d binds, want 10", n)
	}
}
