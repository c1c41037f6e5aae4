package backfill_test

import (
	"fmt"
	"testing"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// TestWhoOthersWereEvictedForNeedsNoReservation: it has its capacity already, and would keep other capacity from others besides.
func TestWhoOthersWereEvictedForNeedsNoReservation(t *testing.T) {
	f := newField(2, 1, 2, "1", map[string]string{"reserveAfter": "0", "reserveShare": "100"})
	if reserved := f.cycle(true); reserved == nil || len(reserved.Nodes) != 2 {
		t.Fatalf("reserved is %v", reserved)
	}
	for i := range 2 {
		pod := f.state.Pod(onePod(fmt.Sprint("big-", i), "1").UID).DeepCopy()
		pod.Status.NominatedNodeName = fmt.Sprint("n000", i)
		f.apply(&cluster.PodSeen{Pod: pod})
		victim := f.state.Pod(onePod(fmt.Sprint("p-", i, "-0"), "1").UID).DeepCopy()
		victim.DeletionTimestamp = f.time()
		f.apply(&cluster.PodSeen{Pod: victim})
	}
	if reserved := f.cycle(true); reserved == nil || len(reserved.Nodes) != 0 {
		t.Errorf("reserved is %v, want an end of it", reserved)
	}
	kept := f.state.Snapshot(f.now).Held()
	if len(kept) != 2 || kept[0].Reserved() || kept[1].Reserved() {
		t.Errorf("kept: %v", kept)
	}
	if reserved := f.cycle(true); reserved != nil {
		t.Errorf("reserved again: %v", reserved)
	}
}
