package scheduler

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// outsider is a plugin that lets nodes pass once it says yes, whatever the cluster does.
type outsider struct {
	yes     bool
	expires time.Duration
	asked   int
	view    framework.View
}

func (*outsider) Name() string { return "outsider" }

func (o *outsider) OpenSession(view framework.View) { o.view = view }

func (o *outsider) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide || o.yes {
		return nil, nil
	}
	o.asked++
	refusal := &model.Refusal{Code: model.NodesFiltered, Detail: "no answer"}
	if o.expires > 0 {
		refusal.Until = o.view.Snapshot().Now.Add(o.expires)
	}
	return nil, refusal
}

// TestARefusalFromOutsideIsAskedAgainSoon, which one that the cluster gave is not.
func TestARefusalFromOutsideIsAskedAgainSoon(t *testing.T) {
	for expires, want := range map[time.Duration]int{4 * time.Second: 2, 0: 0} {
		w, o := newWorld(t), &outsider{expires: expires}
		tier := engine.Tier{{Factory: func() framework.Plugin { return o }}}
		w.loop.profile.Tiers = append(w.loop.profile.Tiers, tier)
		w.node("n", "4")
		w.gang("g", 2, 2)
		w.play(t.Context(), time.Second)
		if condition := w.condition("g"); condition == nil || condition.Reason != string(model.NodesFiltered) {
			t.Fatalf("condition %+v, want one of NodesFiltered", condition)
		}
		o.yes = true
		asked := o.asked
		if got := kinds(w.play(t.Context(), 5*time.Second))[commit.CallBind]; got != want {
			t.Errorf("expires after %s: %d binds, want %d", expires, got, want)
		}
		if o.asked != asked {
			t.Errorf("asked %d times more", o.asked-asked)
		}
	}
}

// TestWhoHearsOfAnObjectLaterThanTheLoopIsAskedOnceMore, soon after.
func TestWhoHearsOfAnObjectLaterThanTheLoopIsAskedOnceMore(t *testing.T) {
	w, o := newWorld(t), &outsider{}
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return o }}})
	w.node("n", "4")
	w.gang("g", 2, 2)
	w.play(t.Context(), 3*time.Second)
	w.mailbox.Event(&cluster.OtherSeen{})
	w.play(t.Context(), ownEventDelay/2)
	o.yes = true // and nothing tells the loop
	if got := kinds(w.play(t.Context(), ownEventDelay))[commit.CallBind]; got != 2 {
		t.Errorf("%d binds, want 2", got)
	}
	before := w.loop.Cycles().Total
	w.play(t.Context(), resyncPeriod/2)
	if after := w.loop.Cycles().Total; after > before+2 {
		t.Errorf("%d cycles more, although nothing has happened", after-before)
	}
}

// BinderOf returns the address of an extender that binds every pod.
func (o *outsider) BinderOf(*model.Task) string { return "http://x" }

// liar answers binds with yes, and does the first of them not.
type liar struct {
	*world
	asked map[string]int
}

func (l liar) Send(call commit.Call) {
	if call.Kind == commit.CallBind {
		if l.asked[call.Binder+" "+call.Pod.Name]++; l.asked[call.Binder+" "+call.Pod.Name] == 1 {
			l.mailbox.Reply(commit.Reply{ID: call.ID})
			return
		}
	}
	l.world.Send(call)
}

// TestABindThatABinderOnlyClaimsIsDoneAgain: the watch never shows it.
func TestABindThatABinderOnlyClaimsIsDoneAgain(t *testing.T) {
	w := newWorld(t)
	l := liar{world: w, asked: map[string]int{}}
	w.loop.sender = l
	w.loop.profile.Tiers = append(w.loop.profile.Tiers, engine.Tier{{Factory: func() framework.Plugin { return &outsider{yes: true} }}})
	w.node("n", "4")
	w.gang("g", 2, 2)
	w.play(t.Context(), uncertainTimeout-time.Second)
	if len(l.asked) != 2 || len(w.calls) > 0 && kinds(w.calls)[commit.CallBind] > 0 {
		t.Fatalf("asked %v, calls %v, want each pod once", l.asked, w.calls)
	}
	if got := kinds(w.play(t.Context(), 10*time.Second))[commit.CallBind]; got != 2 {
		t.Errorf("%d binds after %s, want both done again", got, uncertainTimeout)
	}
	for name, n := range l.asked {
		if n != 2 {
			t.Errorf("%s was asked %d times", name, n)
		}
	}
	if got := kinds(w.play(t.Context(), 2*uncertainTimeout))[commit.CallBind]; got != 0 {
		t.Errorf("%d binds of pods that the watch has shown", got)
	}
}
