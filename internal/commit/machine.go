package commit

import (
	"hash/fnv"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Machine decides which call is sent when, and the outcome of its answers. One goroutine owns it; no method blocks. After
// Submit, Write, Reply, Cancel and Tick the owner calls Calls, and it calls Tick at NextWake.
//
// Invariant: at most Options.Workers calls are in flight, without those that prepare, and at most one per target. No bind of
// a decision is sent before all of it is prepared, no eviction before all of its nominations are confirmed, and none after
// one of its victims was refused. Of several binds of one pod held at the same time at most one is confirmed. A call with its
// final answer leaves no trace; the owner must not submit a bind of a pod after one was confirmed, and the API server refuses
// it.
type Machine struct {
	options Options
	lastID  CallID
	// targetQueues are the live entries by target, in the order in which they are sent: the first is ready, sent or backing
	// off, the others are waiting.
	targetQueues map[target][]*entry
	queues       [kinds]fairQueue // see queue
	sent         map[CallID]*entry
	resting      timerQueue[*entry]
	deadlines    timerQueue[*callGroup]
	// plans are the evictions of decisions without a final answer.
	plans []*callGroup
	// starts are the binds of decisions without a final answer, by job.
	starts map[model.JobKey][]*callGroup
	// outcomes are those not yet returned; outcomesAt is when the first of them came.
	outcomes   []Outcome
	outcomesAt time.Time
	// preparing counts the calls in flight that prepare or release, others those of decisions that wait behind binds, writes
	// those that are writes; starvedSlot is true from the moment one of the last two was sent before binds until the next bind.
	preparing   int
	others      int
	writes      int
	starvedSlot bool
	// pause is that of all calls, writePause that of writes alone.
	pause, writePause pause
	counts            Counts
}

// New returns a machine without work.
func New(options Options) *Machine {
	options = options.withDefaults()
	m := &Machine{
		options:      options,
		targetQueues: map[target][]*entry{},
		sent:         map[CallID]*entry{},
		starts:       map[model.JobKey][]*callGroup{},
	}
	for kind := range m.queues {
		m.queues[kind].burst = 1
	}
	m.queue(CallBind).burst = options.Burst
	return m
}

// Submit accepts a decision, as one unit. Its effect must be assumed already.
func (m *Machine) Submit(now time.Time, decision model.Decision) {
	m.SubmitUntil(now, decision, time.Time{})
}

// SubmitUntil is Submit of a decision that completes an earlier start: its binds get no further attempt after that time, and
// what is not prepared by then is released. The zero time is none.
func (m *Machine) SubmitUntil(now time.Time, decision model.Decision, until time.Time) {
	m.supersedeEvictions(now, decision)
	m.plan(now, decision)

	binds := &callGroup{
		kind: CallBind, job: decision.Job, cycle: decision.Cycle, needs: decision.MinBinds, decided: now, until: until,
	}
	for _, bind := range decision.Binds {
		binds.add(Call{
			Kind: CallBind, Job: decision.Job, Pod: bind.Pod, Node: bind.Node, Binder: bind.Binder, Isolated: bind.Isolated, Place: bind.Place,
			MinBinds: decision.MinBinds,
		})
		binds.entries[len(binds.entries)-1].holds = bind.NeedsPreBind
	}
	if len(binds.entries) > 0 {
		m.starts[binds.job] = append(m.starts[binds.job], binds)
	}
	if !m.prepare(now, binds) {
		m.begin(now, binds)
	}
}

func (b *callGroup) add(call Call) {
	b.entries = append(b.entries, &entry{call: call, batch: b})
	b.open++
}

// begin makes the calls of a call group live.
func (m *Machine) begin(now time.Time, b *callGroup) {
	b.stage = stageCalling
	for _, e := range b.entries {
		m.add(now, e)
	}
}

// add puts an entry of a decision into the queue of its target. It ends an earlier nomination of the pod. A bind or an eviction
// drops writes about the pod that are not sent yet, since they are out of date; a nomination keeps them, and is first.
func (m *Machine) add(now time.Time, e *entry) {
	for _, other := range slices.Clone(m.targetQueues[e.target()]) {
		switch kind := other.call.Kind; {
		case other.state == sent || other.state == final:
		case kind == CallNominate:
			other.superseded = true
			m.abandonEntry(now, other, "there is a newer decision about the pod")
		case kind == CallPodCondition && e.call.Kind == CallNominate:
			m.removeFromState(other)
			other.state = waiting
		case kind == CallPodCondition:
			m.unlink(now, other)
		}
	}
	m.enqueueForTarget(now, e)
}

// Write accepts a write. It replaces one of the same kind for the same target that is not in flight; events have the same
// target when they are about the same object for the same reason. A status of a group replaces the deletion of the group.
func (m *Machine) Write(now time.Time, write Write) {
	kind, _, _ := write.about()
	e := &entry{call: Call{Kind: kind, Write: write}}
	switch write := write.(type) {
	case *PodCondition:
		e.call.Pod = write.Pod
	case *GroupStatus:
		m.dropDeletion(now, e.target())
	}
	for _, other := range m.targetQueues[e.target()] {
		if other.call.Kind == e.call.Kind && other.state != sent {
			other.call.Write = write
			return
		}
	}
	m.enqueueForTarget(now, e)
	if events := m.queue(CallEvent); events.length > m.options.MaxEvents {
		m.unlink(now, events.longest())
		m.counts.DroppedEvents++
	}
}

// dropDeletion drops the deletion of a group, if it is not sent.
func (m *Machine) dropDeletion(now time.Time, group target) {
	for _, e := range m.targetQueues[group] {
		if e.call.Kind == CallDeleteGroup && e.state != sent {
			m.unlink(now, e)
			return
		}
	}
}

// enqueueForTarget puts an entry at the end of its target's queue, a decision before a write that is not in flight.
func (m *Machine) enqueueForTarget(now time.Time, e *entry) {
	t := e.target()
	line, at := m.targetQueues[t], -1
	if e.call.Kind.isDecision() {
		at = slices.IndexFunc(line, func(other *entry) bool { return !other.call.Kind.isDecision() && other.state != sent })
	}
	if at < 0 {
		at = len(line)
	}
	m.targetQueues[t] = slices.Insert(line, at, e)
	e.state = waiting
	if at == 0 {
		m.makeReady(now, e)
	}
}

func (m *Machine) makeReady(now time.Time, e *entry) {
	if b := e.batch; b != nil && b.stage == stagePreBind && e.call.Kind == CallBind {
		m.awaitGroup(now, e)
		return
	}
	e.state, e.since = ready, now
	m.queue(e.call.Kind).push(e)
}

// removeFromState removes an entry from the structures of its state; it keeps its place in its target's queue.
func (m *Machine) removeFromState(e *entry) {
	switch e.state {
	case ready:
		m.queue(e.call.Kind).remove(e, false)
	case sent:
		m.completeFlight(e)
	case backingOff:
		m.resting.remove(e.notBefore, e)
	}
}

// unlink removes an entry from all structures and lets the next of its target go.
func (m *Machine) unlink(now time.Time, e *entry) {
	m.removeFromState(e)
	e.state = final
	t := e.target()
	line := m.targetQueues[t]
	i := slices.Index(line, e)
	if i < 0 {
		return // its call group has not begun
	}
	line = slices.Delete(line, i, i+1)
	if len(line) == 0 {
		delete(m.targetQueues, t)
		return
	}
	m.targetQueues[t] = line
	if i == 0 {
		m.makeReady(now, line[0])
	}
}

// completeFlight ends the flight of a sent entry.
func (m *Machine) completeFlight(e *entry) {
	delete(m.sent, e.call.ID)
	switch kind := e.call.Kind; {
	case kind.prepares():
		m.preparing--
	case !kind.isDecision():
		m.writes--
	case !kind.hasPriority():
		m.others--
	}
}

// advance lets time pass: deadlines first, so that no call is sent after its deadline.
func (m *Machine) advance(now time.Time) {
	for _, b := range m.deadlines.due(now) {
		m.expire(now, b)
	}
	rested := m.resting.due(now)
	for _, e := range slices.Backward(rested) {
		e.state = ready
		m.queue(e.call.Kind).pushFront(e) // it has been waiting longest
	}
}

// Tick lets time pass and returns the outcomes that became final with it.
func (m *Machine) Tick(now time.Time) []Outcome {
	m.advance(now)
	return m.drainOutcomes()
}

// Cancel drops what is not in flight for a pod that no longer exists, including the evictions for it, and returns the
// outcomes that became final with it. Calls in flight for it are not retried.
func (m *Machine) Cancel(now time.Time, uid types.UID) []Outcome {
	m.dropEvictionsOf(now, uid)
	for _, e := range slices.Backward(slices.Clone(m.targetQueues[target{uid: uid}])) {
		e.cancelled = true
		switch {
		case e.call.Kind == CallRelease:
			e.outcome.PodGone = true
		case e.state == sent && e.call.Kind == CallPrepare:
			m.interrupt(now, e)
		case e.state == sent:
		case e.call.Kind.isDecision():
			m.abandonEntry(now, e, "the pod was deleted")
		default:
			m.unlink(now, e)
		}
	}
	return m.drainOutcomes()
}

// NextWake returns when the owner has to call Tick or Calls although nothing else happens; ok is false when it need not.
func (m *Machine) NextWake() (at time.Time, ok bool) {
	earliest := func(candidate time.Time) {
		if !ok || candidate.Before(at) {
			at, ok = candidate, true
		}
	}
	if len(m.outcomes) > 0 {
		earliest(m.outcomesAt)
	}
	if next, some := m.resting.next(); some {
		earliest(next)
	}
	if next, some := m.deadlines.next(); some {
		earliest(next)
	}
	preparing, decisions, writes := m.readyLength()
	free := len(m.sent)-m.preparing < m.options.Workers
	if preparing > 0 && m.preparing < m.options.Preparing || decisions > 0 && free {
		earliest(m.pause.until)
	}
	if writes > 0 && free && m.writes < m.options.Writes {
		until := m.pause.until
		if m.writePause.until.After(until) {
			until = m.writePause.until
		}
		earliest(until)
	}
	return at, ok
}

// Idle reports whether the machine is empty.
func (m *Machine) Idle() bool { return len(m.targetQueues) == 0 && len(m.outcomes) == 0 }

// retryDelay returns the delay after this many attempts.
func (m *Machine) retryDelay(uid types.UID, attempts int) time.Duration {
	pause := m.options.Backoff
	for range attempts - 1 {
		if pause *= 2; pause >= m.options.MaxBackoff {
			break
		}
	}
	pause = min(pause, m.options.MaxBackoff)
	hash := fnv.New32a()
	hash.Write([]byte(uid)) // never fails
	return pause - pause/1024*time.Duration(hash.Sum32()%256)
}
