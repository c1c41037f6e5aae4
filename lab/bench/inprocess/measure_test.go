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
