package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

func same(t *rapid.T, what, want, got string) {
	if want != got {
		t.Fatalf("%s (-want +got):\n%s", what, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
}

// check looks at the last snapshot, and sometimes at the view, which has to catch up then.
func check(t *rapid.T, s *State) {
	if err := s.snapshot.Check(); err != nil {
		t.Fatalf("snapshot does not add up: %v", err)
	}
	if rapid.IntRange(0, 3).Draw(t, "look at the view") == 0 {
		if err := s.view.Check(); err != nil {
			t.Fatal(err)
		}
	}
}

// session assumes, forgets and leaves moves behind, as cycles and commits do between two events.
func session(t *rapid.T, w *world, s *State, snapshot *model.Snapshot) {
	for range w.number(4, "moves") {
		task, _ := w.move(snapshot)
		if task == nil {
			continue
		}
		switch {
		case task.Status == model.Allocated && w.chance(2, "commit"):
			s.Assume(bind(string(task.UID), task.Node))
		case task.Status == model.Releasing && w.chance(2, "commit"):
			s.Assume(evict(string(task.UID)))
		case task.Status == model.Pipelined && w.chance(2, "commit"):
			s.Assume(nomination(string(task.UID), task.Node))
		case task.Nominated != "" && w.chance(3, "give back"):
			s.Assume(nomination(string(task.UID), ""))
		case w.chance(4, "forget"):
			s.Forget(task.UID)
			s.ForgetEviction(task.UID)
			s.ForgetNomination(task.UID)
		}
	}
	check(t, s)
}

// I22: an incremental state that has lived through everything, one that receives the outcome in any order, and one that
// receives the whole history in a wrong order and twice hold the same, byte for byte.
func TestSameStateWhateverTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, live := newWorld(t), newState()
		for range w.number(60, "steps") {
			event := w.step()
			live.Apply(event)
			if w.chance(3, "cycle") {
				now := start.Add(time.Duration(w.number(120, "now")) * time.Second)
				snapshot := live.Snapshot(now)
				check(t, live)
				session(t, w, live, snapshot)
			}
		}
		for uid := range live.pods.entries {
			live.Forget(uid)
			live.ForgetEviction(uid)
			live.ForgetNomination(uid)
		}
		now := start.Add(70 * time.Second)
		snapshot := live.Snapshot(now)
		check(t, live)

		fresh := newState(w.objects()...)
		fresh.Snapshot(now)
		check(t, fresh)
		same(t, "the outcome", dump(fresh.Snapshot(now)), dump(snapshot))
		same(t, "view of the outcome", fresh.view.String(), live.view.String())

		late := newState()
		for _, event := range rapid.Permutation(slices.Concat(w.history, w.history)).Draw(t, "late") {
			late.Apply(event)
			if w.chance(5, "look") {
				late.Snapshot(now)
				check(t, late)
			}
		}
		for _, last := range w.slices { // of one node they come in order
			late.Apply(&DevicesSeen{last})
		}
		same(t, "in a wrong order", dump(snapshot), dump(late.Snapshot(now)))
		same(t, "view in a wrong order", live.view.String(), late.view.String())

		for _, object := range w.objects() {
			live.Apply(gone(object))
		}
		live.Snapshot(now)
		check(t, live)
		same(t, "I8, at rest", leftovers(newState()), leftovers(live))
	})
}

// leftovers counts what a state holds, but for the names it remembers as deleted.
func leftovers(s *State) string {
	return fmt.Sprint(len(s.pods.entries), len(s.nodes), len(s.groups), len(s.others.pods), len(s.others.groups), len(s.classes), len(s.devices.classes.objects), len(s.claims.known), len(s.claims.users), len(s.claims.holders), len(s.claims.of), len(s.claims.unbound), len(s.devices.nodes),
		len(s.devices.classes.at), len(s.pods.members), len(s.pods.uncertain), len(s.pods.held), len(s.reserved), len(s.history.saidLater), len(s.pods.nominated), len(s.budgets.known), len(s.namespaces.labels), len(s.queues.objects), len(s.snapshot.Queues),
		len(s.pods.releasing), len(s.snapshot.Budgets), len(s.snapshot.Held()), len(s.dirty.pods), len(s.dirty.nodes), len(s.dirty.jobs),
		len(s.snapshot.Jobs),
		len(s.snapshot.Nodes), s.view, s.view.Kept())
}

// I9: whatever a session did, taking it back in any order leaves snapshot and view as they were, and what it does not
// take back is overwritten by the next snapshot.
func TestUndoIsIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, s := newWorld(t), newState()
		for range w.number(40, "steps") {
			s.Apply(w.step())
		}
		now := start.Add(time.Minute)
		snapshot := s.Snapshot(now)
		check(t, s)
		before, view := dump(snapshot), s.view.String()
		widths := fingerprint(snapshot)

		came := map[types.UID]model.Placement{}
		moved := map[types.UID]*model.Task{}
		for range w.number(30, "moves") {
			task, from := w.move(snapshot)
			if task == nil {
				continue
			}
			if moved[task.UID] == nil {
				came[task.UID], moved[task.UID] = from, task
			}
			check(t, s)
		}
		if w.chance(2, "leave it to the state") {
			s.Snapshot(now)
		} else {
			uids := make([]types.UID, 0, len(moved))
			for _, task := range tasksIn(snapshot) {
				if moved[task.UID] != nil {
					uids = append(uids, task.UID)
				}
			}
			for _, uid := range rapid.Permutation(uids).Draw(t, "undo") {
				snapshot.Move(moved[uid], came[uid])
			}
		}
		same(t, "after undo", before, dump(snapshot))
		same(t, "view after undo", view, s.view.String())
		same(t, "books after undo", widths, fingerprint(snapshot))
	})
}

// fingerprint writes down the vectors as they are, with their lengths.
func fingerprint(snapshot *model.Snapshot) string {
	var b strings.Builder
	for _, n := range snapshot.Nodes {
		fmt.Fprintln(&b, n.Name, n.Allocatable(), n.Amounts().Idle, n.Amounts().Releasing, n.Amounts().Pipelined, n.Amounts().Reserved)
	}
	return b.String()
}
