package inprocess

import (
	"io"
	"strings"
	"testing"
)

// TestCyclesBindWhatHasRoom measures every kind in small: a cycle that binds too few or too many is an error of Run.
func TestCyclesBindWhatHasRoom(t *testing.T) {
	for _, kind := range Kinds() {
		w := Workload{Kind: kind, Nodes: 50, Existing: 200, Pending: 40, GangSize: 20}
		cases := One([]Kind{kind}, w, 2)
		if kind.waits() {
			w = cases[0].Workload
		}
		cases = append(cases, Case{Goals, Again, w, 1, 0}, Case{Goals, OneGang, w, 1, 0}, Case{Goals, Unchanged, w, 1, 0}, Case{Goals, Changed, w, 1, 0})
		results, err := Run(t.Context(), cases, Options{Out: io.Discard})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if first := results[0]; first.Binds != w.Starts() || first.Took <= 0 || first.Snapshot <= 0 {
			t.Errorf("%s: %+v", kind, first)
		}
		if again := results[len(results)-3]; again.Binds != 0 || (again.Waiting > 0) != kind.waits() {
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
	if len(objects.Queues) != 13 || len(used) != 11 {
		t.Errorf("%d queues, %d with gangs", len(objects.Queues), len(used))
	}
	results, err := Run(t.Context(), []Case{{Goals, First, w, 2, 0}}, Options{Out: io.Discard})
	if err != nil || results[0].Binds != w.Pending {
		t.Errorf("%+v: %v", results, err)
	}
}

// TestQueuesAreComparedWithNone: both columns are there, of clusters that differ in nothing else.
func TestQueuesAreComparedWithNone(t *testing.T) {
	w := Workload{Kind: Shapes, Nodes: 50, Pending: 40, GangSize: 2, Queues: 50}
	results, err := Run(t.Context(), []Case{{Queued, First, w, 1, 0}}, Options{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	with, without := results[0], results[0].Without
	if want := (Workload{Kind: Shapes, Nodes: 50, Pending: 40, GangSize: 2}); without.Case.Workload != want || with.Case.Workload != w {
		t.Errorf("%s beside %s", with.Case, without.Case)
	}
	if with.Binds != 40 || without.Binds != 40 || without.Live == 0 || with.Processor <= 0 || without.Processor <= 0 {
		t.Errorf("%+v beside %+v", with, without)
	}
	if with.Live <= without.Live {
		t.Errorf("50 queues take %d bytes of the heap", int64(with.Live)-int64(without.Live))
	}
}

// TestGroupsOfOthersAreComparedWithOurs: what waits starts as with PodGroups of ours.
func TestGroupsOfOthersAreComparedWithOurs(t *testing.T) {
	for _, source := range Sources() {
		w := Workload{Kind: Identical, Nodes: 50, Pending: 40, GangSize: 4, Source: source}
		hopeless := Workload{Kind: Hopeless, Nodes: 50, Pending: 40, GangSize: 8, Source: source}
		results, err := Run(t.Context(), []Case{{Foreign, First, w, 1, 0}, {Foreign, OneGang, hopeless, 1, 0}}, Options{Out: io.Discard})
		if err != nil {
			t.Fatalf("%s: %v", source.Kind(), err)
		}
		first, without := results[0], results[0].Without
		if without.Case.Workload.Source != 0 || first.Binds != 40 || without.Binds != 40 || first.Live == 0 || first.Waiting != 0 {
			t.Errorf("%s: %+v beside %+v", source.Kind(), first, without)
		}
		if again := results[1]; again.Waiting != again.Without.Waiting || again.Waiting == 0 {
			t.Errorf("%s: %d wait, %d with PodGroups of ours", source.Kind(), again.Waiting, again.Without.Waiting)
		}
	}
}

// TestAThousandQueuesHaveFourLevels: and each limit is above what the cluster has.
func TestAThousandQueuesHaveFourLevels(t *testing.T) {
	parents, deepest, limits := map[string]string{}, 0, 0
	for _, queue := range (Workload{Kind: Shapes, Queues: 1000}).Objects().Queues {
		parents[queue.Name] = queue.Spec.Parent
		if queue.Spec.Limit != nil {
			limits++
		}
	}
	for name := range parents {
		levels := 0
		for at := name; at != ""; at = parents[at] {
			levels++
		}
		deepest = max(deepest, levels)
	}
	if len(parents) != 1000 || deepest != 4 || limits != 334 {
		t.Errorf("%d queues on %d levels, %d with limits", len(parents), deepest, limits)
	}
}

// TestGangsShareDomains: gangs start in their domains, for the first time and again, and not where no domain has capacity.
func TestGangsShareDomains(t *testing.T) {
	for _, topology := range Topologies() {
		size := 40
		if topology == InRacks {
			size = 20
		}
		w := Workload{Kind: WholeNodes, Nodes: 50, Pending: 40, GangSize: size, Topology: topology}
		if _, err := Run(t.Context(), []Case{{Goals, First, w, 1, 0}, {Goals, Kept, w, 2, 0}}, Options{Out: io.Discard}); err != nil {
			t.Error(err)
		}
	}
	tooMany := Workload{Kind: WholeNodes, Nodes: 50, Pending: 42, GangSize: 21, Topology: InRacks}
	if _, err := Run(t.Context(), []Case{{Goals, First, tooMany, 1, 0}}, Options{Out: io.Discard}); err == nil {
		t.Error("gangs of 21 start in racks of 20")
	}
}

// TestTopologiesAreComparedWithNone: hopeless gangs that share racks wait as those that share nothing do.
func TestTopologiesAreComparedWithNone(t *testing.T) {
	w := Workload{Kind: Hopeless, Nodes: 50, Pending: 40, GangSize: 8, Topology: InRacks}
	results, err := Run(t.Context(), []Case{{Levels, First, w, 1, 0}, {Goals, OneNode, w, 1, 0}}, Options{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	with, without, changed := results[0], results[0].Without, results[1]
	if without.Case.Workload.Topology != Labelled || with.Waiting != 5 || without.Waiting != 5 || with.Binds != without.Binds || changed.Waiting != 5 {
		t.Errorf("%+v beside %+v, then %+v", with, without, changed)
	}
	if text := Markdown(results); !strings.Contains(text, "### What topologies cost") || !strings.Contains(text, "| 40, hopeless, topology: racks | 8 | 50 | 0 |") {
		t.Error(text)
	}
}
