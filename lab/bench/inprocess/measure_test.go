package inprocess

import (
	"io"
	"testing"
)

// TestCyclesBindWhatHasRoom measures every kind in small: a cycle that binds too few or too many is an error of Run.
func TestCyclesBindWhatHasRoom(t *testing.T) {
	for _, kind := range Kinds() {
		w := Workload{Kind: kind, Nodes: 50, Existing: 200, Pending: 40, GangSize: 20}
		cases := One([]Kind{kind}, w, 2)
		cases = append(cases, Case{Goals, Again, w, 1, 0}, Case{Goals, OneGang, w, 1, 0}, Case{Goals, Unchanged, w, 1, 0}, Case{Goals, Changed, w, 1, 0})
		results, err := Run(t.Context(), cases, Options{Out: io.Discard})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if first := results[0]; first.Binds != w.Starts() || first.Took <= 0 || first.Snapshot <= 0 {
			t.Errorf("%s: %+v", kind, first)
		}
		if again := results[len(results)-3]; again.Binds != 0 || (again.Waiting > 0) != kind.hopeless() {
			t.Errorf("%s: the cycle after it: %+v", kind, again)
		}
	}
}

// TestCyclesWithQueuesBindWhatHasRoom does that with gangs in the leaves of a tree.
func TestCyclesWithQueuesBindWhatHasRoom(t *testing.T) {
	w := Workload{Kind: Shapes, Nodes: 50, Existing: 200, Pending: 40, GangSize: 2, Queues: 13}
	objects := w.Objects()
	inner, used := map[string]bool{}, map[string]bool{}
	for _, queue := range objects.Queues {
		inner[queue.Spec.Parent] = true
	}
	for _, group := range objects.Pending.Groups {
		used[group.Spec.Queue] = true
		if inner[group.Spec.Queue] {
			t.Errorf("%s is in %s, which is no leaf", group.Name, group.Spec.Queue)
		}
	}
	if len(objects.Queues) != 13 || len(used) != 12 {
		t.Errorf("%d queues, %d with gangs", len(objects.Queues), len(used))
	}
	results, err := Run(t.Context(), []Case{{Goals, First, w, 2, 0}}, Options{Out: io.Discard})
	if err != nil || results[0].Binds != w.Pending {
		t.Errorf("%+v: %v", results, err)
	}
}
