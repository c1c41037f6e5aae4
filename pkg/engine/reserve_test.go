package engine

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestDepartOnlySupposes: a task that is supposed to have ended leaves its capacity to others, for as long as the statement
// lasts.
func TestDepartOnlySupposes(t *testing.T) {
	snapshot := house(4)
	runs := join(snapshot, "a", 1, 2, model.Resources{2})
	waits := join(snapshot, "b", 1, 1, model.Resources{4})
	snapshot.AssignIndexes()
	snapshot.Move(runs.Tasks[0], model.Placement{Status: model.Running, Node: "n0"})
	snapshot.Move(runs.Tasks[1], model.Placement{Status: model.Releasing, Node: "n0"})
	var told []string
	plugin := everything{named: "p", asked: &told}
	var decided []model.Decision
	s := Open(snapshot, profileOf(minimum{"gang"}, plugin), Options{Verify: true, Decide: func(d model.Decision) {
		decided = append(decided, d)
	}})
	before := dump(snapshot)
	fits := func(statement *Statement) bool { return statement.pipeline(waits.Tasks[0], snapshot.Nodes[0]) == nil }
	var alone, both bool
	s.Try(func(statement *Statement) *model.Refusal {
		s.Try(func(inner *Statement) *model.Refusal {
			inner.SimulateCompletion(runs.Tasks[0])
			alone = fits(inner)
			return no("x")
		})
		statement.SimulateCompletion(runs.Tasks[0])
		statement.SimulateCompletion(runs.Tasks[1])
		both = fits(statement)
		if again := statement.SimulateCompletion(runs.Tasks[1]); again == nil || again.Code != framework.CodeMisuse {
			t.Errorf("a task that has left leaves again: %v", again)
		}
		return no("x")
	})
	if !alone || !both {
		t.Errorf("it fits with those that are being released: %t, without any job: %t", alone, both)
	}
	if after := dump(snapshot); after != before {
		t.Errorf("it was only supposed, and left\n%s\ninstead of\n%s", after, before)
	}
	refusal := s.Try(func(statement *Statement) *model.Refusal {
		statement.SimulateCompletion(runs.Tasks[0])
		fits(statement)
		return nil
	})
	if refusal == nil || refusal.Code != framework.CodeMisuse || len(decided) > 0 || dump(snapshot) != before {
		t.Errorf("a supposition was decided on: %v, %v", refusal, decided)
	}
	if len(s.changes.evicted) > 0 {
		t.Errorf("%d are marked for eviction", len(s.changes.evicted))
	}
}

// TestReserveAndBorrow: reserved capacity is in force immediately, is lent to who will be gone, and is there again when it is
// released.
func TestReserveAndBorrow(t *testing.T) {
	snapshot := house(4)
	owner, other := join(snapshot, "a", 1, 1, model.Resources{4}), join(snapshot, "b", 1, 1, model.Resources{4})
	var decided []model.Decision
	s := Open(snapshot, profileOf(), Options{Verify: true, Decide: func(d model.Decision) { decided = append(decided, d) }})
	findsAs := func(job *model.Job, as Supposed) bool {
		return s.Ask(job, model.Idle).Supposing(as).Best(job.Tasks[0], nil) != nil
	}
	finds := func(job *model.Job) bool { return findsAs(job, Supposed{}) }
	s.Reserve(owner, &model.Reservation{
		Nodes: []model.ReservedNode{{Node: "n0", Members: 1, Request: model.Resources{4}}}, ExpectedStart: time.Unix(100, 0),
	})
	if !finds(owner) || finds(other) {
		t.Errorf("the owner finds capacity: %t, the other: %t", finds(owner), finds(other))
	}
	for gone, want := range map[int64]bool{100: true, 101: false, model.UnrestrictedViewpoint: true, 0: false} {
		as := Supposed{GoneBy: gone}
		if findsAs(other, as) != want {
			t.Errorf("who is gone at %d finds capacity: %t", gone, !want)
		}
		if finds(owner); findsAs(other, as) != want {
			t.Errorf("who is gone at %d finds capacity after the owner has looked: %t", gone, !want)
		}
	}
	if s.Reserve(owner, nil); !finds(other) {
		t.Error("nothing is reserved any more, and there is no capacity")
	}
	if len(decided) != 2 || len(decided[0].Reservation.Nodes) != 1 || len(decided[1].Reservation.Nodes) != 0 {
		t.Errorf("decided %v", decided)
	}
}

// keeper is an action that keeps reservations and does nothing.
type keeper struct{}

func (keeper) Name() string               { return "keeper" }
func (keeper) Execute(*Session)           {}
func (keeper) LimitReservations(*Session) {}

// idler is an action that does nothing else.
type idler struct{}

func (idler) Name() string       { return "idler" }
func (idler) Execute(s *Session) { s.Until(time.Unix(7, 0)) }

func TestReservationsEndWithoutAnOwner(t *testing.T) {
	for _, kept := range []bool{true, false} {
		snapshot := house(4)
		join(snapshot, "a", 1, 1, model.Resources{4}).Reservation = &model.Reservation{}
		ended := 0
		profile := &Profile{Actions: []Action{idler{}}}
		if kept {
			profile.Actions = append(profile.Actions, keeper{})
		}
		result := Run(snapshot, profile, Options{Decide: func(d model.Decision) { ended++ }})
		if (ended == 0) != kept || !result.Until.Equal(time.Unix(7, 0)) {
			t.Errorf("reservations are kept: %t; ended %d; until %s", kept, ended, result.Until)
		}
	}
}

// TestHeadroomEndsWithTheActionThatKeepsIt: a new configuration may lack it, and the snapshot outlives the session.
func TestHeadroomEndsWithTheActionThatKeepsIt(t *testing.T) {
	snapshot := house(4)
	limit := []model.ListedAmount{{Position: 0, Amount: 4}}
	snapshot.SetQueues([]*model.Queue{{Name: "q", Limit: limit}})
	snapshot.Enqueue(join(snapshot, "a", 1, 1, model.Resources{4}), "q")
	snapshot.AssignIndexes()
	s := Open(snapshot, profileOf(minimum{"gang"}), Options{Verify: true})
	s.KeepHeadroom(snapshot.Jobs)
	if !snapshot.Queues[0].HasHeadroom() {
		t.Error("nothing is kept")
	}
	s.Close()
	Run(snapshot, profileOf(minimum{"gang"}), Options{Verify: true})
	if snapshot.Queues[0].HasHeadroom() {
		t.Error("it is still kept")
	}
}
