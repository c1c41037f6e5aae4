package scheduler

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
)

// TestAFloodOfReasonsDelaysNoBind: the user of a waiting gang of 600 changes its minimum to and fro, and each change gives the
// gang and all its members another reason. The writes stay within the budget of the namespace, and gangs start as they would.
func TestAFloodOfReasonsDelaysNoBind(t *testing.T) {
	const members, most = 600, 500
	w := newWorld(t)
	w.loop.options.Verify = false
	w.node("n1", "4")
	w.gang("flood", members, members)
	if got := kinds(w.play(t.Context(), 2*time.Second)); got[commit.CallPodCondition] != members || got[commit.CallGroupStatus] != 1 {
		t.Fatalf("at first %v", got)
	}
	var started time.Time
	for window := range 3 {
		counts := map[commit.Kind]int{}
		for step := range 20 { // of half a second
			group := w.groups["flood"].DeepCopy()
			group.Spec.MinMember = int32(members + step%2)
			group.Generation++
			w.group(group)
			if window == 1 && step == 5 {
				w.gang("small", 2, 2)
			}
			for kind, n := range kinds(w.playBy(t.Context(), 500*time.Millisecond, 50*time.Millisecond)) {
				counts[kind] += n
			}
			if counts[commit.CallBind] == 2 && started.IsZero() {
				started = w.clock.Now()
				if window != 1 || step != 5 {
					t.Errorf("the small gang was bound in step %d of window %d", step, window)
				}
			}
		}
		// The change of the window makes two budgets meet. The events of first refusals have a part of them.
		if ofPods := counts[commit.CallPodCondition] + counts[commit.CallEvent]; ofPods > 2*most+20 || counts[commit.CallGroupStatus] > 20 {
			t.Errorf("window %d: %v", window, counts)
		}
	}
	if started.IsZero() {
		t.Error("the small gang was not bound")
	}
	w.playBy(t.Context(), time.Minute, 100*time.Millisecond)
	for _, pod := range w.pods {
		if got := pod.Status.Conditions; pod.Spec.NodeName == "" && (len(got) != 1 || got[0].Reason != "NotEnoughMembers") {
			t.Fatalf("in the end %s: %+v", pod.Name, got)
		}
	}
}
