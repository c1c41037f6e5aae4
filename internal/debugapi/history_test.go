package debugapi

import (
	"strconv"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

func TestHistoryForgets(t *testing.T) {
	h := &History{}
	for range maxCycles + 7 {
		h.Add(&Cycle{})
	}
	document := h.Document(true)
	if document.Total != maxCycles+7 || len(document.Items) != maxCycles {
		t.Fatalf("%d cycles of %d", len(document.Items), document.Total)
	}
	for i, cycle := range document.Items {
		if want := strconv.Itoa(8 + i); cycle.Name != want {
			t.Errorf("position %d has cycle %s, want %s", i, cycle.Name, want)
		}
	}
}

// TestRecorderLosesNoTime: the parts of a cycle take as long as the cycle, each of them what was spent in it.
func TestRecorderLosesNoTime(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	recorder := NewRecorder(clock, clock.Now())
	spend := func(seconds int) { clock.Step(time.Duration(seconds) * time.Second) }
	spend(1)
	recorder.Begin("allocate")
	spend(2)
	before := recorder.Begin(PartSend)
	spend(4)
	recorder.Begin(before)
	spend(8)
	recorder.Begin(PartSettle)
	spend(16)
	recorder.Stop(&model.Snapshot{}, 3)
	if took := recorder.Cycle.Took.Duration; took != 31*time.Second {
		t.Errorf("took %s, want 31s", took)
	}
	got := map[string]time.Duration{}
	for _, part := range recorder.Cycle.Parts {
		got[part.Name] = part.Took.Duration
	}
	for part, seconds := range map[string]int{PartSnapshot: 1, "allocate": 10, PartSend: 4, PartSettle: 16} {
		if want := time.Duration(seconds) * time.Second; got[part] != want {
			t.Errorf("%s took %s, want %s", part, got[part], want)
		}
	}
	if len(got) != 4 || recorder.Cycle.Waiting != 3 {
		t.Errorf("parts %v, waiting %d", got, recorder.Cycle.Waiting)
	}
}
