package debugapi

import (
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/model"
)

// The parts of a cycle outside of its session; the session names its own.
const (
	PartSnapshot = "snapshot"
	// PartSend is to assume decisions and to send their calls, during the session.
	PartSend   = "send"
	PartSettle = "settle"
)

const (
	// maxCycles is how many cycles are kept, maxDecisions how many decisions of each.
	maxCycles    = 100
	maxDecisions = 20
)

// History keeps what the last cycles did. The loop adds to it; it is safe for concurrent use.
type History struct {
	mu    sync.Mutex
	total uint64
	// cycles are the last ones; they are never changed.
	cycles []*Cycle
}

// Add numbers a cycle and keeps it; it must not be changed afterwards.
func (h *History) Add(cycle *Cycle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.total++
	cycle.Name = strconv.FormatUint(h.total, 10)
	h.cycles = append(slices.Delete(h.cycles, 0, max(0, len(h.cycles)-maxCycles+1)), cycle)
}

// Last returns the number of the last cycle; zero when there was none.
func (h *History) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// Document returns the document of the last cycles. leading reports whether this process decides.
func (h *History) Document(leading bool) *CycleList {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &CycleList{ListMeta: listMeta("CycleList", time.Time{}, leading), Total: h.total, Items: append([]*Cycle{}, h.cycles...)}
}

// Recorder measures one cycle, part by part, and counts what it decides. The loop's goroutine owns it.
type Recorder struct {
	// Cycle is what is recorded; it is complete after Stop.
	Cycle *Cycle
	clock clock.PassiveClock
	// part is the current one, since when.
	part  string
	since time.Time
}

// NewRecorder begins a cycle, with the snapshot.
func NewRecorder(clock clock.PassiveClock, now time.Time) *Recorder {
	return &Recorder{clock: clock, Cycle: &Cycle{Start: now}, part: PartSnapshot, since: now}
}

// Begin ends the current part, begins or resumes another, and returns the one before.
func (r *Recorder) Begin(part string) (before string) {
	now := r.clock.Now()
	took := now.Sub(r.since)
	before, r.part, r.since = r.part, part, now
	for i := range r.Cycle.Parts {
		if r.Cycle.Parts[i].Name == before {
			r.Cycle.Parts[i].Took.Duration += took
			return before
		}
	}
	r.Cycle.Parts = append(r.Cycle.Parts, Part{Name: before, Took: metav1.Duration{Duration: took}})
	return before
}

// Stop ends the cycle.
func (r *Recorder) Stop(snapshot *model.Snapshot, waiting int) {
	r.Begin("")
	r.Cycle.Took.Duration = r.since.Sub(r.Cycle.Start)
	r.Cycle.Jobs, r.Cycle.Nodes, r.Cycle.Waiting = len(snapshot.Jobs), len(snapshot.Nodes), waiting
}

// Decided counts a decision.
func (r *Recorder) Decided(decision *model.Decision) {
	line := Decision{Job: decision.Job.String(), Binds: len(decision.Binds), Evictions: len(decision.Evictions)}
	for _, nomination := range decision.Nominations {
		if nomination.Releases() {
			line.NominationsReleased++
		} else {
			line.Nominations++
		}
	}
	c := r.Cycle
	if decision.Reservation != nil {
		line.Reserved = decision.Reservation.NodeNames()
		c.Reservations++
	}
	c.Decided++
	c.Binds, c.Evictions = c.Binds+line.Binds, c.Evictions+line.Evictions
	c.Nominations, c.NominationsReleased = c.Nominations+line.Nominations, c.NominationsReleased+line.NominationsReleased
	if len(c.Decisions) < maxDecisions {
		c.Decisions = append(c.Decisions, line)
	}
}
