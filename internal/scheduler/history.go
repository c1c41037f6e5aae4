package scheduler

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file keeps what the last cycles did, for those who ask from outside.

// The parts of a cycle that are none of the session's.
const (
	partSnapshot = "snapshot"
	// partSend is to assume decisions and to hand them over, while the session waits.
	partSend   = "send"
	partSettle = "settle"
)

const (
	// rememberedCycles is how many cycles are kept, rememberedDecisions how many decisions of each.
	rememberedCycles    = 100
	rememberedDecisions = 20
)

// history is what the last cycles did. The loop adds to it, anybody may read it.
type history struct {
	mu      sync.Mutex
	leading bool
	total   uint64
	// ring has the cycle of number n at n modulo its length; the cycles in it are never changed.
	ring [rememberedCycles]*debugapi.Cycle
}

// add numbers a cycle and keeps it; nobody may change it from then on.
func (h *history) add(cycle *debugapi.Cycle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	cycle.Number = h.total
	h.ring[h.total%rememberedCycles] = cycle
}

func (h *history) setLeading() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leading = true
}

func (h *history) isLeading() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leading
}

func (h *history) document() *debugapi.Cycles {
	h.mu.Lock()
	defer h.mu.Unlock()
	document := &debugapi.Cycles{Leading: h.leading, Total: h.total, Cycles: []*debugapi.Cycle{}}
	for number := h.total; number > 0 && h.total-number < rememberedCycles; number-- {
		document.Cycles = append(document.Cycles, h.ring[number%rememberedCycles])
	}
	return document
}

// Cycles returns what the last cycles did. Any goroutine may call it, at any time; it does not hold up the loop.
func (s *Scheduler) Cycles() *debugapi.Cycles { return s.history.document() }

// stopwatch measures one cycle, part by part, and takes down what it decides. The loop's goroutine owns it.
type stopwatch struct {
	clock clock.PassiveClock
	cycle *debugapi.Cycle
	// part is the one that goes on, since then.
	part  string
	since time.Time
}

// newStopwatch begins with the snapshot.
func newStopwatch(clock clock.PassiveClock, now time.Time) *stopwatch {
	return &stopwatch{clock: clock, cycle: &debugapi.Cycle{Start: now}, part: partSnapshot, since: now}
}

// begin ends the part that goes on, begins another or goes on with it, and returns the one before.
func (w *stopwatch) begin(part string) (before string) {
	now := w.clock.Now()
	took := now.Sub(w.since)
	before, w.part, w.since = w.part, part, now
	for i := range w.cycle.Parts {
		if w.cycle.Parts[i].Name == before {
			w.cycle.Parts[i].Took.Duration += took
			return before
		}
	}
	w.cycle.Parts = append(w.cycle.Parts, debugapi.Part{Name: before, Took: metav1.Duration{Duration: took}})
	return before
}

// stop ends the cycle and returns how long it took.
func (w *stopwatch) stop(snapshot *model.Snapshot, waiting int) time.Duration {
	w.begin("")
	w.cycle.Took.Duration = w.since.Sub(w.cycle.Start)
	w.cycle.Jobs, w.cycle.Nodes, w.cycle.Waiting = len(snapshot.Jobs), len(snapshot.Nodes), waiting
	return w.cycle.Took.Duration
}

// record takes down a decision.
func (w *stopwatch) record(decision *model.Decision) {
	line := debugapi.Decision{Job: decision.Job.String(), Binds: len(decision.Binds), Evictions: len(decision.Evictions)}
	for _, promise := range decision.Nominations {
		if takesBack(promise) {
			line.ReleasedNominations++
		} else {
			line.Nominations++
		}
	}
	c := w.cycle
	if decision.Reservation != nil {
		line.Reserved = decision.Reservation.NodeNames()
		c.Reservations++
	}
	c.Decided++
	c.Binds, c.Evictions = c.Binds+line.Binds, c.Evictions+line.Evictions
	c.Nominations, c.ReleasedNominations = c.Nominations+line.Nominations, c.ReleasedNominations+line.ReleasedNominations
	if len(c.Decisions) < rememberedDecisions {
		c.Decisions = append(c.Decisions, line)
	}
}
