package commit

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// Reply takes the answer to a call and returns the outcomes that became final with it. A reply to a call that is not in
// flight, such as a second one, changes nothing.
func (m *Machine) Reply(now time.Time, reply Reply) []Outcome {
	e := m.sent[reply.ID]
	if e == nil {
		return m.drainOutcomes()
	}
	m.answered(e.call.Kind, reply.Err)
	v := classify(e.call.Kind, reply.Err)
	m.throttle(now, e.call.Kind, v)
	if reply.Err != nil {
		e.message = reply.Err.Error()
	}
	if e.call.Kind.prepares() {
		m.prepared(now, e, reply.Err)
		return m.drainOutcomes()
	}
	if e.call.Kind == CallGetPod {
		m.read(now, e, reply.Err, v)
		return m.drainOutcomes()
	}
	switch v.class {
	case unknown:
		e.mayHaveTakenEffect, e.lostAt = true, now
		m.retry(now, e, v)
	case rejected:
		m.retry(now, e, v)
	case done:
		m.succeed(now, e)
	default:
		if v.protected && e.victimOf.Method == model.ByEvictionOrDeletion {
			m.continueEviction(now, e, CallSetCondition, deletionMark(now, e.call.Job, e.victimOf))
			break
		}
		e.refused, e.outdated = v.class == refused, v.outdated
		m.fail(now, e, v.class == gone, v.leaving, e.message)
	}
	return m.drainOutcomes()
}

// pause is for how long nothing is sent after the server said it is busy, and how often it has said so in a row.
type pause struct {
	until time.Time
	count int
}

func (p *pause) holds(now time.Time) bool { return now.Before(p.until) }

// throttle pauses sending while the server says it is busy: all calls when it says so of a decision, writes alone when it says
// so of one.
func (m *Machine) throttle(now time.Time, kind Kind, v verdict) {
	p := &m.pause
	if !kind.isDecision() {
		p = &m.writePause
	}
	switch {
	case v.class == done:
		p.count = 0
	case v.busy && !p.holds(now): // replies to calls sent before the pause do not extend it
		p.count++
		length := m.retryDelay("", p.count)
		p.until = now.Add(length)
		if kind.isDecision() {
			m.counts.Paused += length
		} else {
			m.counts.WritesPaused += length
		}
	}
}

// retry schedules the next attempt, or ends the entry if there is none.
func (m *Machine) retry(now time.Time, e *entry, v verdict) {
	if e.batch != nil && !m.giveUp(now, e) || e.batch == nil && !m.dropObsolete(now, e) {
		m.rest(e, now.Add(max(v.retryAfter, m.retryDelay(e.target().uid, e.call.Attempt))))
	}
}

// rest lets an entry whose attempt has failed wait for the next one until that time.
func (m *Machine) rest(e *entry, until time.Time) {
	m.completeFlight(e)
	e.state, e.notBefore = backingOff, until
	m.resting.add(until, e)
}

// giveUp ends an entry of a decision that may get no further attempt; it reports whether it did.
func (m *Machine) giveUp(now time.Time, e *entry) bool {
	switch b := e.batch; {
	case e.cancelled:
		m.abandonEntry(now, e, "the pod was deleted")
	case b.aborted != "":
		m.abandonEntry(now, e, b.aborted)
	case b.late(now):
		m.tooLate(now, e)
	default:
		return false
	}
	return true
}

// dropObsolete ends a write whose attempt failed, if another one is useless; it reports whether it did.
func (m *Machine) dropObsolete(now time.Time, e *entry) bool {
	switch {
	case e.cancelled:
		m.unlink(now, e)
		return true
	case e.call.Kind == CallEvent && e.call.Attempt >= m.options.EventAttempts:
		m.abandonEntry(now, e, e.message)
		return true
	case e.call.Kind == CallDeleteGroup: // what is the case by then decides whether there is another one
		m.abandonEntry(now, e, e.message)
		return true
	}
	for _, other := range m.targetQueues[e.target()] {
		switch {
		case other == e || other.call.Kind == CallDeleteGroup:
		case other.call.Kind.isDecision():
			m.unlink(now, e)
			return true
		default: // a newer write of the kind replaces this one, and takes its back-off
			e.call.Write = other.call.Write
			m.unlink(now, other)
			return false
		}
	}
	return false
}

// late reports whether the deadline forbids a further attempt.
func (b *callGroup) late(now time.Time) bool {
	return !b.noDeadline && (b.expired || !now.Before(b.deadline))
}

// tooLate ends an entry whose call group has passed its deadline.
func (m *Machine) tooLate(now time.Time, e *entry) {
	message := "bind deadline exceeded"
	switch kind := e.call.Kind; {
	case kind == CallNominate:
		message = "deadline for nominations exceeded"
	case kind.evicts():
		message = "eviction deadline exceeded"
	}
	if e.message != "" {
		message += ": " + e.message
	}
	e.refused = e.call.Attempt > 0 && e.call.Kind != CallBind
	m.abandonEntry(now, e, message)
}

// expire ends the entries of a call group that are not in flight; those in flight keep their attempt.
func (m *Machine) expire(now time.Time, b *callGroup) {
	if b.stage == stagePreBind {
		why := "not prepared within " + m.options.PrepareTimeout.String()
		if b.deadline.Equal(b.until) {
			why = "not prepared before the start had to be complete"
		}
		b.deadline = time.Time{}
		m.abort(now, b, why)
		return
	}
	b.expired = true
	for _, e := range b.entries {
		if e.state != sent && e.state != final && e.call.Kind != CallRelease && e.call.Kind != CallGetPod {
			m.tooLate(now, e)
		}
	}
}

// abandonEntry ends an entry that gets no further attempt.
func (m *Machine) abandonEntry(now time.Time, e *entry, message string) {
	m.fail(now, e, false, false, message)
}

// succeed ends an entry whose call took effect.
func (m *Machine) succeed(now time.Time, e *entry) {
	switch e.call.Kind {
	case CallBind:
		m.bound(now, e)
	case CallNominate:
		kind := Nominated
		if e.call.Node == "" {
			kind = NominationReleased
		}
		m.finalizeDecision(now, e, Outcome{Kind: kind})
	case CallSetCondition:
		m.continueEviction(now, e, CallDelete, nil)
	case CallEvict, CallDelete:
		m.finalizeDecision(now, e, Outcome{Kind: Evicted})
	case CallDeleteStarted:
		m.finalizeDecision(now, e, Outcome{Kind: StartUndone})
	default:
		m.unlink(now, e)
	}
}

// bound ends a confirmed bind, and the calls that it makes obsolete: other binds of the pod, conditions that say it waits.
func (m *Machine) bound(now time.Time, e *entry) {
	others := slices.Clone(m.targetQueues[e.target()])[1:]
	m.finalizeDecision(now, e, Outcome{Kind: Bound, Duration: now.Sub(e.batch.decided), Prepared: e.holds && e.call.Binder != ""})
	for _, other := range others {
		switch other.call.Kind {
		case CallBind, CallPrepare, CallNominate:
			m.fail(now, other, false, false, "the pod is bound already")
		case CallPodCondition:
			m.unlink(now, other)
		}
	}
}

// fail ends an entry whose last attempt did not take effect, or that has none left. gone reports whether the object does not
// exist, as does e.cancelled; leaving whether it is terminating.
//
// Invariant: a bind of which an earlier attempt may have taken effect fails only when its pod does not exist, or was read
// without a node, or on another one, after the end of that attempt.
func (m *Machine) fail(now time.Time, e *entry, gone, leaving bool, message string) {
	gone = gone || e.cancelled
	outcome := Outcome{PodGone: gone || leaving, Message: message}
	switch e.call.Kind {
	case CallBind, CallPrepare:
		outcome.Kind, outcome.Refused = BindFailed, e.refused
		if e.outdated && e.call.Isolated != nil {
			outcome.StaleVersion = e.call.Isolated.ResourceVersion
		}
		if e.mayHaveTakenEffect && !gone {
			m.become(now, e, CallGetPod, outcome)
			return
		}
		m.failBind(now, e, outcome)
	case CallGetPod:
		outcome.Kind = BindFailed
		m.failBind(now, e, outcome)
	case CallDeleteStarted:
		m.failUndo(now, e, gone, outcome)
	case CallNominate:
		m.failNomination(now, e, outcome)
	case CallEvict, CallSetCondition, CallDelete:
		m.failEviction(now, e, gone, outcome)
	case CallEvent:
		m.unlink(now, e)
		m.counts.DroppedEvents++
	default:
		m.unlink(now, e)
		outcome.Kind, outcome.Pod, outcome.Write = WriteFailed, e.call.Pod, e.call.Write
		m.report(now, outcome)
	}
}

// finalizeDecision gives an entry of a decision its final outcome.
func (m *Machine) finalizeDecision(now time.Time, e *entry, outcome Outcome) {
	m.unlink(now, e)
	outcome.Job, outcome.Pod, outcome.Node, outcome.Binder = e.call.Job, e.call.Pod, e.call.Node, e.call.Binder
	outcome.Cycle = e.batch.cycle
	if e.victimOf != nil {
		outcome.Why, outcome.Right, outcome.Queue = e.victimOf.Message, e.victimOf.Right, e.victimOf.Queue
	}
	m.report(now, outcome)

	b := e.batch
	b.open--
	switch outcome.Kind {
	case Bound, Nominated, NominationReleased:
		b.succeeded++
	case Evicted:
		b.succeeded++
		if !outcome.PodGone {
			b.victims = append(b.victims, *e.victimOf)
		}
	case BindFailed, NominationFailed, EvictFailed:
		b.failed++
	case BindUncertain:
		b.uncertain++
	}
	if b.open > 0 {
		return
	}
	if !b.deadline.IsZero() && !b.expired {
		m.deadlines.remove(b.deadline, b)
	}
	switch b.kind {
	case CallNominate:
		if plan := b.evictions; plan != nil && b.failed == 0 && plan.aborted == "" {
			m.begin(now, plan) // all nominations that it waits for are confirmed
		}
	case CallEvict:
		m.finishPlan(now, b)
	case CallDeleteStarted:
	default:
		m.removeStart(b)
		m.report(now, Outcome{
			Kind: Committed, Job: b.job, Needs: b.needs, Bound: b.succeeded, Failed: b.failed, Uncertain: b.uncertain,
		})
	}
}

func (m *Machine) report(now time.Time, outcome Outcome) {
	if len(m.outcomes) == 0 {
		m.outcomesAt = now
	}
	m.outcomes = append(m.outcomes, outcome)
}

// drainOutcomes returns the outcomes and clears them.
func (m *Machine) drainOutcomes() []Outcome {
	outcomes := m.outcomes
	m.outcomes = nil
	return outcomes
}
