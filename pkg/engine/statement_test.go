package engine

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ledger adds up the calls that it gets; after an undo it must be as before.
type ledger struct {
	named
	room map[string]int
}

func (l ledger) add(task *model.Task, position model.Placement, n int) {
	if position.Status == model.Allocated || position.Status == model.Pipelined || position.Status == model.Releasing {
		l.room[fmt.Sprint(task.UID, position)] += n
	}
}

func (l ledger) OnAllocate(task *model.Task)                           { l.add(task, task.Placement, 1) }
func (l ledger) OnEvict(task *model.Task)                              { l.add(task, task.Placement, 1) }
func (l ledger) OnDeallocate(task *model.Task, before model.Placement) { l.add(task, before, -1) }

func (l ledger) String() string {
	held := map[string]int{}
	for key, n := range l.room {
		if n != 0 {
			held[key] = n
		}
	}
	return fmt.Sprint(held)
}

// pair keeps the order in which two observers are called.
type pair struct {
	named
	log *[]string
}

func (p pair) note(what string, task *model.Task) {
	*p.log = append(*p.log, fmt.Sprintf("%s: %s %s", p.named, task.Name, what))
}

func (p pair) OnAllocate(task *model.Task)                      { p.note("placed", task) }
func (p pair) OnEvict(task *model.Task)                         { p.note("evicted", task) }
func (p pair) OnDeallocate(task *model.Task, _ model.Placement) { p.note("undone", task) }

// town draws a cluster with some tasks on their nodes already.
func town(t *rapid.T) *model.Snapshot {
	snapshot := house(rapid.SliceOfN(rapid.Int64Range(0, 6), 1, 3).Draw(t, "capacities")...)
	for i := range rapid.IntRange(1, 3).Draw(t, "jobs") {
		count := rapid.IntRange(1, 4).Draw(t, "tasks")
		job := join(snapshot, fmt.Sprint("j", i), int32(rapid.IntRange(1, count).Draw(t, "min")), count,
			model.Resources{rapid.Int64Range(0, 3).Draw(t, "request")})
		job.Priority = rapid.Int32Range(0, 2).Draw(t, "priority")
		for _, task := range job.Tasks {
			status := rapid.SampledFrom([]model.Status{
				model.Pending, model.Pending, model.Running, model.Bound, model.Releasing, model.Succeeded, model.Failed,
			}).Draw(t, "status")
			position := model.Placement{Status: status}
			if status.HasNode() {
				position.Node = rapid.SampledFrom(snapshot.Nodes).Draw(t, "on").Name
			}
			task.Priority = job.Priority
			task.TerminationOverdue = rapid.Bool().Draw(t, "stuck")
			snapshot.Move(task, position)
		}
	}
	return snapshot
}

// wanderer does random things in nested statements, and checks after each refused one that nothing has changed.
type wanderer struct {
	t       *rapid.T
	session *Session
	ledger  ledger
	steps   int
	// check is called after each operation, and after each statement; nil checks nothing.
	check func()
}

func (w *wanderer) state() string { return dump(w.session.Snapshot) + w.ledger.String() }

func (w *wanderer) try(depth int) {
	before := w.state()
	refusal := w.session.Try(func(statement *Statement) *model.Refusal {
		for range rapid.IntRange(0, 4).Draw(w.t, "operations") {
			w.steps++
			if depth < 3 && rapid.IntRange(0, 3).Draw(w.t, "nest") == 0 {
				w.try(depth + 1)
				continue
			}
			w.operate(statement)
		}
		if rapid.Bool().Draw(w.t, "refuse") {
			return no("Changed")
		}
		return nil
	})
	if after := w.state(); refusal != nil && after != before {
		w.t.Fatalf("refused with %v; before\n%s\nafter\n%s", refusal, before, after)
	}
	if w.check != nil {
		w.check()
	}
}

func (w *wanderer) operate(statement *Statement) {
	job := rapid.SampledFrom(w.session.Snapshot.Jobs).Draw(w.t, "job")
	task := rapid.SampledFrom(job.Tasks).Draw(w.t, "task")
	node := rapid.SampledFrom(w.session.Snapshot.Nodes).Draw(w.t, "node")
	before := w.state()
	var refusal *model.Refusal
	switch rapid.IntRange(0, 5).Draw(w.t, "operation") {
	case 0:
		refusal = statement.allocate(task, node)
	case 1:
		refusal = statement.pipeline(task, node)
	case 2:
		refusal = statement.Unevict(task)
	case 3:
		refusal = statement.Unpipeline(task)
	case 4:
		refusal = statement.EvictBy(task, model.ByDeletion)
	default:
		refusal = statement.Evict(task)
	}
	if after := w.state(); (refusal == nil) == (after == before) {
		w.t.Fatalf("%v for %s; before\n%s\nafter\n%s", refusal, task, before, after)
	}
	if w.check != nil {
		w.check()
	}
}

// TestUndoIsIdentity is invariant I9, and on the way I1 and I3 for whatever an action may do: what was decided is exactly
// what changed, no decision starts part of a gang, and no node is given more than it has.
func TestUndoIsIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		snapshot := town(t)
		overdrawn := map[string]bool{}
		for _, node := range snapshot.Nodes {
			overdrawn[node.Name] = node.Idle(0) < 0
		}
		decided := map[string]string{}
		book := ledger{"ledger", map[string]int{}}
		var session *Session
		session = Open(snapshot, profileOf(minimum{"gang"}, book), Options{Verify: true, Decide: func(decision model.Decision) {
			job := session.Snapshot.Job(decision.Job)
			if len(decision.Binds) > 0 && job.Count(framework.Ready.Counts) < int(job.MinMember) {
				t.Fatalf("decision below minimum: %+v", decision)
			}
			for _, bind := range decision.Binds {
				decided[string(bind.Pod.UID)] = bind.Node
			}
			for _, eviction := range decision.Evictions {
				decided[string(eviction.Pod.UID)] = "evicted"
			}
		}})
		before := map[string]model.Status{}
		for _, job := range snapshot.Jobs {
			for _, task := range job.Tasks {
				before[string(task.UID)] = task.Status
			}
		}
		w := &wanderer{t: t, session: session, ledger: book}
		for range rapid.IntRange(1, 4).Draw(t, "statements") {
			w.try(0)
		}
		for _, node := range snapshot.Nodes {
			if node.Idle(0) < 0 && !overdrawn[node.Name] {
				t.Fatalf("%s is overdrawn", node.Name)
			}
		}
		for _, job := range snapshot.Jobs {
			for _, task := range job.Tasks {
				want := ""
				switch {
				case task.Status == model.Allocated:
					want = task.Node
				case task.Status == model.Releasing && before[string(task.UID)] != model.Releasing:
					want = "evicted"
				}
				if got := decided[string(task.UID)]; got != want {
					t.Fatalf("%s is %s on %q; decided %q", task, task.Status, task.Node, got)
				}
			}
		}
	})
}

// TestObserversAreToldBackwards: forwards in tier order, an undo in reverse.
func TestObserversAreToldBackwards(t *testing.T) {
	var log []string
	snapshot := house(4)
	job := join(snapshot, "a", 1, 2, model.Resources{1})
	snapshot.Move(job.Tasks[1], model.Placement{Status: model.Running, Node: "n0"})
	session := Open(snapshot, profileOf(pair{"one", &log}, pair{"two", &log}), Options{Verify: true})
	session.Try(func(statement *Statement) *model.Refusal {
		statement.allocate(job.Tasks[0], snapshot.Nodes[0])
		statement.Evict(job.Tasks[1])
		return no("Changed")
	})
	want := []string{
		"one: a-0 placed", "two: a-0 placed", "one: a-1 evicted", "two: a-1 evicted",
		"two: a-1 undone", "one: a-1 undone", "two: a-0 undone", "one: a-0 undone",
	}
	if !slices.Equal(log, want) {
		t.Errorf("got %q", log)
	}
}

// TestPromiseOnReleasedRoom: what is being released can be promised, once, and not placed on.
func TestPromiseOnReleasedRoom(t *testing.T) {
	snapshot := house(2)
	leaving := join(snapshot, "leaving", 1, 1, model.Resources{2})
	snapshot.Move(leaving.Tasks[0], model.Placement{Status: model.Releasing, Node: "n0"})
	wants := join(snapshot, "wants", 2, 2, model.Resources{2})
	session := Open(snapshot, profileOf(), Options{Verify: true})
	session.Try(func(statement *Statement) *model.Refusal {
		if refusal := statement.allocate(wants.Tasks[0], snapshot.Nodes[0]); refusal == nil {
			t.Error("placed on capacity that is not free yet")
		}
		if refusal := statement.pipeline(wants.Tasks[0], snapshot.Nodes[0]); refusal != nil {
			t.Errorf("promise: %v", refusal)
		}
		if refusal := statement.pipeline(wants.Tasks[1], snapshot.Nodes[0]); refusal == nil {
			t.Error("the same capacity promised twice")
		}
		return nil
	})
}

// TestPartOfAGangIsRefused: the engine asks the gates itself, whatever an action returns; the refusal of a gate takes back
// the other jobs of the statement too.
func TestPartOfAGangIsRefused(t *testing.T) {
	snapshot := house(9)
	gang := join(snapshot, "gang", 2, 2, model.Resources{1})
	single := join(snapshot, "single", 1, 1, model.Resources{1})
	decisions := 0
	session := Open(snapshot, profileOf(minimum{"gang"}), Options{Verify: true, Decide: func(model.Decision) { decisions++ }})
	before := dump(snapshot)
	refusal := session.Try(func(statement *Statement) *model.Refusal {
		statement.allocate(single.Tasks[0], snapshot.Nodes[0])
		return statement.allocate(gang.Tasks[0], snapshot.Nodes[0])
	})
	if refusal == nil || refusal.Needs != 2 || refusal.Has != 1 || decisions != 0 || dump(snapshot) != before {
		t.Errorf("refusal %v, %d decisions, snapshot\n%s", refusal, decisions, dump(snapshot))
	}
}

// TestPromisesBindNothing: a promise is nothing to commit, and a placed task beside it does not start on its account.
func TestPromisesBindNothing(t *testing.T) {
	snapshot := house(2)
	gang := join(snapshot, "gang", 2, 2, model.Resources{1})
	decisions := 0
	session := Open(snapshot, profileOf(minimum{"gang"}), Options{Verify: true, Decide: func(model.Decision) { decisions++ }})
	if refusal := session.Try(func(statement *Statement) *model.Refusal {
		statement.allocate(gang.Tasks[0], snapshot.Nodes[0])
		return statement.pipeline(gang.Tasks[1], snapshot.Nodes[0])
	}); refusal == nil {
		t.Error("one placed and one promised passed for two placed")
	}
	if refusal := session.Try(func(statement *Statement) *model.Refusal {
		statement.pipeline(gang.Tasks[0], snapshot.Nodes[0])
		return statement.pipeline(gang.Tasks[1], snapshot.Nodes[0])
	}); refusal != nil {
		t.Errorf("two promises: %v", refusal)
	}
	if decisions != 0 {
		t.Errorf("%d decisions", decisions)
	}
}

// TestEvictionOfAStranger: a pod of another scheduler has no job.
func TestEvictionOfAStranger(t *testing.T) {
	snapshot := house(2)
	stranger := &model.Task{PodRef: model.PodRef{UID: "s", Name: "s"}}
	snapshot.Move(stranger, model.Placement{Status: model.Running, Node: "n0"})
	var got []model.Decision
	session := Open(snapshot, profileOf(minimum{"gang"}), Options{Decide: func(d model.Decision) { got = append(got, d) }})
	job := join(snapshot, "above", 1, 1, model.Resources{1})
	job.Priority = 1
	refusal := session.Try(func(statement *Statement) *model.Refusal {
		if refusal := statement.Evict(stranger); refusal != nil {
			return refusal
		}
		return statement.pipeline(job.Tasks[0], snapshot.Nodes[0])
	})
	if refusal != nil || len(got) != 1 || got[0].Job != job.Key || len(got[0].Evictions) != 1 || len(got[0].Nominations) != 1 {
		t.Errorf("refusal %v, decisions %+v", refusal, got)
	}
}

// TestNeeds: of a decision's binds, those count as needed that the minimum is short of without them.
func TestNeeds(t *testing.T) {
	for name, c := range map[string]struct {
		min            int32
		running, binds int
		want           int
	}{
		"exactly the minimum":  {3, 0, 3, 3},
		"more than it":         {2, 0, 3, 2},
		"completes a start":    {3, 2, 1, 1},
		"surplus":              {2, 2, 1, 0},
		"some of both":         {3, 2, 2, 1},
		"single":               {1, 0, 1, 1},
		"surplus of a surplus": {1, 3, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := house(9)
			job := join(snapshot, "a", c.min, c.running+c.binds, model.Resources{1})
			for _, task := range job.Tasks[:c.running] {
				snapshot.Move(task, model.Placement{Status: model.Running, Node: "n0"})
			}
			var got []int
			session := Open(snapshot, profileOf(minimum{"gang"}), Options{Decide: func(d model.Decision) { got = append(got, d.MinBinds) }})
			session.Try(func(statement *Statement) *model.Refusal {
				for _, task := range job.Tasks[c.running:] {
					statement.allocate(task, snapshot.Nodes[0])
				}
				return nil
			})
			if !slices.Equal(got, []int{c.want}) {
				t.Errorf("needs %v, want %d", got, c.want)
			}
		})
	}
}

// TestNeedsOfRoles: a launcher that completes a start is needed, although there are workers enough for the number.
func TestNeedsOfRoles(t *testing.T) {
	snapshot := house(9)
	job := join(snapshot, "a", 2, 4, model.Resources{1})
	job.Roles = []model.Role{{Name: "launcher", MinMember: 1}, {Name: "worker", MinMember: 1}}
	for i, role := range []string{"worker", "worker", "launcher", "worker"} {
		job.Tasks[i].Role = role
	}
	for _, task := range job.Tasks[:2] {
		snapshot.Move(task, model.Placement{Status: model.Running, Node: "n0"})
	}
	var got []int
	session := Open(snapshot, profileOf(), Options{Decide: func(d model.Decision) { got = append(got, d.MinBinds) }})
	for _, task := range job.Tasks[2:] {
		session.Try(func(statement *Statement) *model.Refusal { return statement.allocate(task, snapshot.Nodes[0]) })
	}
	if !slices.Equal(got, []int{1, 0}) {
		t.Errorf("needs %v, want that of the launcher and none of the third worker", got)
	}
}

// TestStatementEnds: outside its Try a statement is of no use.
func TestStatementEnds(t *testing.T) {
	snapshot := house(9)
	job := join(snapshot, "a", 1, 1, model.Resources{1})
	session := Open(snapshot, profileOf(), Options{})
	var kept *Statement
	session.Try(func(statement *Statement) *model.Refusal { kept = statement; return nil })
	for _, refusal := range []*model.Refusal{
		kept.allocate(job.Tasks[0], snapshot.Nodes[0]), kept.pipeline(job.Tasks[0], snapshot.Nodes[0]), kept.Evict(job.Tasks[0]),
	} {
		if refusal == nil || refusal.Code != framework.CodeMisuse {
			t.Errorf("got %v", refusal)
		}
	}
}

// TestVerifyPanics: verify mode finds what a plugin or an action changed behind the statement's back.
func TestVerifyPanics(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*model.Snapshot)
		say   *model.Refusal
	}{
		"books":         {func(s *model.Snapshot) { forget(s.Nodes[0]) }, nil},
		"undo is short": {func(s *model.Snapshot) { s.Jobs[0].Tasks[0].Status = model.Failed }, no("Changed")},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := house(9)
			join(snapshot, "a", 1, 1, model.Resources{1})
			session := Open(snapshot, profileOf(), Options{Verify: true})
			defer func() {
				if recover() == nil {
					t.Error("nothing noticed")
				}
			}()
			session.Try(func(*Statement) *model.Refusal { c.spoil(snapshot); return c.say })
		})
	}
}

// freeOnNUMA sets things aside and reports whether that is all taken back.
type freeOnNUMA struct {
	named
	refuse bool
	aside  map[string]string
}

func (s *freeOnNUMA) Reserve(task *model.Task, node *model.Node) (bool, *model.Refusal) {
	if s.refuse {
		return false, &model.Refusal{Code: "Taken", Detail: "all taken"}
	}
	s.aside[task.Name] = node.Name
	return true, nil
}

func (s *freeOnNUMA) Unreserve(task *model.Task) { delete(s.aside, task.Name) }

// TestReserve: what is reserved goes with the placement, forwards and back, and the decision says so.
func TestReserve(t *testing.T) {
	one, two := &freeOnNUMA{named: "one", aside: map[string]string{}}, &freeOnNUMA{named: "two", aside: map[string]string{}}
	snapshot := house(4)
	join(snapshot, "a", 1, 1, model.Resources{1})
	var decided []model.Decision
	session := Open(snapshot, profileOf(one, two), Options{Decide: func(d model.Decision) { decided = append(decided, d) }})
	task, node := snapshot.Jobs[0].Tasks[0], snapshot.Nodes[0]
	place := func(then *model.Refusal) *model.Refusal {
		return session.Try(func(statement *Statement) *model.Refusal {
			if refusal := statement.allocate(task, node); refusal != nil {
				return refusal
			}
			return then
		})
	}
	if place(&model.Refusal{}) == nil || len(one.aside)+len(two.aside) > 0 {
		t.Errorf("undone, and still set aside: %v, %v", one.aside, two.aside)
	}
	two.refuse = true
	if refusal := place(nil); refusal == nil || refusal.Code != "Taken" || len(one.aside) > 0 {
		t.Errorf("refused with %v, set aside are %v", refusal, one.aside)
	}
	byNumbers := session.Ask(snapshot.Jobs[0], model.Idle).Supposing(Supposed{ByNumbers: true})
	if refusal := session.Try(func(statement *Statement) *model.Refusal {
		if refusal := statement.Put(byNumbers, task, node); refusal != nil {
			t.Errorf("by numbers alone: %v", refusal)
		}
		return nil
	}); refusal == nil || refusal.Code != framework.CodeMisuse || len(decided)+len(one.aside) > 0 {
		t.Errorf("placed by numbers alone, and decided on: %v, %+v", refusal, decided)
	}
	two.refuse = false
	if refusal := place(nil); refusal != nil || one.aside[task.Name] != node.Name || two.aside[task.Name] != node.Name {
		t.Errorf("refused with %v, set aside are %v, %v", refusal, one.aside, two.aside)
	}
	if len(decided) != 1 || !decided[0].Binds[0].NeedsPreBind {
		t.Errorf("decided %+v, want one bind to prepare", decided)
	}
}

// TestAMemberThatIsTakenBackAndPlacedIsNoStart: of a gang of two that is nominated, one member is taken back and placed alone in
// one statement.
func TestAMemberThatIsTakenBackAndPlacedIsNoStart(t *testing.T) {
	snapshot := house(4)
	job := join(snapshot, "j", 2, 2, model.Resources{1})
	session := Open(snapshot, profileOf(minimum{"gang"}), Options{Verify: true})
	node := snapshot.Nodes[0]
	if refusal := session.Try(func(st *Statement) *model.Refusal {
		return cmp.Or(st.pipeline(job.Tasks[0], node), st.pipeline(job.Tasks[1], node))
	}); refusal != nil {
		t.Fatal(refusal)
	}
	if session.Try(func(st *Statement) *model.Refusal {
		return cmp.Or(st.Unpipeline(job.Tasks[0]), st.allocate(job.Tasks[0], node))
	}) == nil {
		t.Error("half a gang has started")
	}
}
