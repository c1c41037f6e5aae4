package scheduler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// paused is a profile like the present one that pauses.
func (w *world) paused(paused bool) *engine.Profile {
	next := *w.loop.profile
	if next.Paused = ""; paused {
		next.Paused = "the configuration of the scheduler says pause: true"
	}
	return &next
}

// TestPause: while the configuration pauses the scheduler no job starts and no pod is evicted. A start that has begun goes on.
// Then all goes on where it was.
func TestPause(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	w.preempting()
	w.node("n1", "4")
	refused := true
	w.refuse = func(call commit.Call) error {
		if refused && call.Pod.Name == "begun-1" {
			return apierrors.NewServiceUnavailable("not now")
		}
		return nil
	}
	w.gang("begun", 2, 2)
	w.playBy(t.Context(), time.Second, 10*time.Millisecond)
	if w.pods["begun-0"].Spec.NodeName == "" || w.pods["begun-1"].Spec.NodeName != "" {
		t.Fatal("the gang has not begun in part")
	}
	w.reconfigure(w.paused(true))
	w.gang("fits", 1, 1)
	w.high("evicts", 4)
	w.play(t.Context(), 2*time.Second)
	for _, group := range []string{"fits", "evicts"} {
		if condition := w.condition(group); condition == nil || condition.Reason != string(model.Paused) || !strings.Contains(condition.Message, "pause: true") {
			t.Errorf("%s shows %+v", group, condition)
		}
	}
	expectMetrics(t, sum, map[string]float64{
		"tutti_paused": 1, "tutti_decisions_total kind=evict": 0, "tutti_waiting_jobs reason=Paused": 2,
	})
	refused = false
	w.play(t.Context(), 20*time.Second)
	if n := w.boundPods(); n != 2 || w.condition("begun").Reason != "Scheduled" {
		t.Errorf("%d pods are bound, and the gang that had begun shows %+v", n, w.condition("begun"))
	}
	w.reconfigure(w.paused(false))
	w.play(t.Context(), 2*time.Second)
	if sum("tutti_paused") != 0 || sum("tutti_decisions_total", "kind=evict") == 0 {
		t.Error("it does not go on")
	}
}

// TestAPauseHoldsBackRestarts: a degraded gang is left alone however long the pause is, and restarted when it ends.
func TestAPauseHoldsBackRestarts(t *testing.T) {
	w := lossy(t, v1alpha1.MemberLossRestart, 60)
	w.reconfigure(w.paused(true))
	w.gone("mpi-1")
	if got := sent(w.playBy(t.Context(), time.Hour, time.Second), commit.CallDeleteStarted); len(got) != 0 {
		t.Fatalf("deleted %q in the pause", got)
	}
	w.reconfigure(w.paused(false))
	if got := sent(w.play(t.Context(), 5*time.Second), commit.CallDeleteStarted); len(got) != 2 {
		t.Errorf("deleted %q after the pause, want the two that are left", got)
	}
}

// TestADecisionIsOneLine with the number of its cycle, which the events have, too.
func TestADecisionIsOneLine(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "2")
	var lines []string
	log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	ctx := klog.NewContext(context.WithoutCancel(t.Context()), log)
	w.gang("mpi", 2, 2)
	w.gang("big", 3, 3)
	calls := w.play(ctx, 2*time.Second)
	lines = slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, `"msg"="Decision"`) })
	want := `"level"=1 "msg"="Decision" "cycle"=1 "job"="PodGroup default/mpi" "needs"=2 "binds"=["mpi-0 on n1" "mpi-1 on n1"]`
	if len(lines) != 1 || lines[0] != want {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(lines, "\n"), want)
	}
	told := map[string]uint64{}
	for _, call := range calls {
		if event, is := call.Write.(*commit.Event); is {
			told[event.Regarding.Name+" "+event.Reason] = event.Cycle
		}
	}
	for _, event := range []string{"mpi-0 Scheduled", "mpi-1 Scheduled", "mpi Scheduled", "big InsufficientResources", "big-0 FailedScheduling"} {
		if told[event] == 0 || strings.HasPrefix(event, "mpi-") && told[event] != 1 {
			t.Errorf("the event %s is of cycle %d", event, told[event])
		}
	}
}

// TestTheOldestMemberTellsWhyItsGangWaits: kubectl describe shows events and no messages of conditions. There is one for each
// reason, about the oldest member, and one for each other member, about its first refusal.
func TestTheOldestMemberTellsWhyItsGangWaits(t *testing.T) {
	w := newWorld(t)
	w.node("n1", "1")
	w.gang("big", 3, 4)
	told := func(calls []commit.Call) (notes []string) {
		for _, call := range calls {
			if event, is := call.Write.(*commit.Event); is && event.Regarding.Kind == "Pod" {
				notes = append(notes, event.Regarding.Name+" "+event.Reason+": "+event.Note)
				if event.Type != corev1.EventTypeWarning {
					t.Errorf("event %+v", event)
				}
			}
		}
		return notes
	}
	first := told(w.play(t.Context(), 30*time.Second))
	w.member("big", 3)
	second := told(w.play(t.Context(), 30*time.Second))
	if want := `big-0 FailedScheduling: waits with its PodGroup "big": NotEnoughMembers: needs 4, 3 exist`; len(first) != 3 || !strings.HasPrefix(first[0], want) {
		t.Errorf("the events are %q, want %s", first, want)
	}
	for i, name := range []string{"big-1", "big-2"} {
		if want := name + ` FailedScheduling: waits with its PodGroup "big": NotEnoughMembers: needs 4, 3 exist`; len(first) == 3 && !strings.HasPrefix(first[1+i], want) {
			t.Errorf("the events are %q, want %s", first, want)
		}
	}
	if want := `big-0 FailedScheduling: waits with its PodGroup "big": InsufficientResources: needs 4, 1 would fit`; len(second) != 2 || !strings.HasPrefix(second[0], want) || !strings.HasPrefix(second[1], "big-3 ") {
		t.Errorf("the events are %q, want %s", second, want)
	}
}
