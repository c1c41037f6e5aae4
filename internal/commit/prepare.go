package commit

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is stagePreBind: everything reserved for a decision is prepared before its first bind, and released when there is
// none. failBind says what a failed bind does to the others; that the first one was sent shows in callGroup.deadline.

// prepare begins with what must be ready before the first bind of a call group. It returns false when there is nothing.
func (m *Machine) prepare(now time.Time, b *callGroup) bool {
	if !slices.ContainsFunc(b.entries, func(e *entry) bool { return e.holds }) {
		return false
	}
	b.unready = len(b.entries)
	m.setDeadline(b, now.Add(m.options.PrepareTimeout))
	for _, e := range b.entries {
		if e.holds {
			e.call.Kind = CallPrepare
		}
	}
	for _, e := range b.entries {
		m.add(now, e)
	}
	return true
}

// setDeadline sets the deadline of a call group. It is earlier where the start that the group completes must be complete by then:
// members of it are bound already, and are deleted at that time.
func (m *Machine) setDeadline(b *callGroup, at time.Time) {
	if b.deadline = at; !b.until.IsZero() && b.until.Before(at) {
		b.deadline = b.until
	}
	m.deadlines.add(b.deadline, b)
}

// prepared takes the answer to a call that prepares or releases. Neither is retried: a pod that could not be prepared is
// placed again, since another node may do.
func (m *Machine) prepared(now time.Time, e *entry, err error) {
	switch {
	case e.call.Kind == CallRelease:
		m.released(now, e, err)
	case e.cancelled:
		m.abandonEntry(now, e, "the pod was deleted")
	case e.batch.aborted != "":
		m.abandonEntry(now, e, e.batch.aborted)
	case err != nil:
		e.refused = true
		m.abandonEntry(now, e, e.message)
	default:
		m.completeFlight(e)
		e.call.Kind, e.call.Attempt, e.message = CallBind, 0, ""
		m.awaitGroup(now, e)
	}
}

// awaitGroup lets an entry wait for the others of its call group.
func (m *Machine) awaitGroup(now time.Time, e *entry) {
	e.state = awaitingGroup
	e.batch.unready--
	m.startIfReady(now, e.batch)
}

// startIfReady begins with the binds when all of the call group that have not failed are prepared.
func (m *Machine) startIfReady(now time.Time, b *callGroup) {
	if b.unready > 0 || b.aborted != "" {
		return
	}
	b.stage = stageCalling
	m.forgetDeadline(b)
	for _, e := range b.entries {
		if e.state == awaitingGroup {
			m.makeReady(now, e)
		}
	}
}

func (m *Machine) forgetDeadline(b *callGroup) {
	if !b.deadline.IsZero() {
		m.deadlines.remove(b.deadline, b)
		b.deadline = time.Time{}
	}
}

// failBind ends a bind, once what was reserved for its pod is released; for an uncertain one it is kept. While volumes of its
// call group are being prepared, the other binds fail with it, unless the job does not need any of them. Afterwards, and until
// the first bind is sent, they fail when fewer are left than the job needs.
func (m *Machine) failBind(now time.Time, e *entry, outcome Outcome) {
	b, wasParked := e.batch, e.state == awaitingGroup
	if outcome.Kind == BindFailed && e.holds {
		m.become(now, e, CallRelease, outcome)
	} else {
		m.finalizeDecision(now, e, outcome)
	}
	if b.stage != stagePreBind {
		m.abortIfHopeless(now, b, e, outcome)
		return
	}
	if !wasParked {
		b.unready--
	}
	switch {
	case b.aborted != "":
	case b.needs > 0:
		m.abort(now, b, "pod "+e.call.Pod.Name+" could not be prepared: "+outcome.Message)
	default:
		m.startIfReady(now, b)
	}
}

// abortIfHopeless ends a call group of which too many have failed before the first bind was sent, as when pods are deleted
// while their binds wait for a worker: the rest would start the gang in part.
func (m *Machine) abortIfHopeless(now time.Time, b *callGroup, failed *entry, outcome Outcome) {
	if b.needs == 0 || b.aborted != "" || !b.deadline.IsZero() {
		return
	}
	hopes := 0
	for _, e := range b.entries {
		if e.state != final && e.call.Kind == CallBind {
			hopes++
		}
	}
	if hopes < b.needs {
		m.abort(now, b, "pod "+failed.call.Pod.Name+" could not be bound: "+outcome.Message)
	}
}

// abort ends a call group of which nothing is bound, or no victim is evicted any more: what is not in flight fails, what is
// in flight gets no further attempt.
func (m *Machine) abort(now time.Time, b *callGroup, message string) {
	b.aborted = message
	m.forgetDeadline(b)
	for _, e := range b.entries {
		switch {
		case e.state == final || e.call.Kind == CallRelease || e.call.Kind == CallGetPod:
		case e.state != sent:
			m.abandonEntry(now, e, message)
		case e.call.Kind == CallPrepare:
			m.interrupt(now, e)
		}
	}
}

// interrupt reports Obsolete for a CallPrepare in flight.
func (m *Machine) interrupt(now time.Time, e *entry) {
	if !e.obsolete {
		e.obsolete = true
		m.report(now, Outcome{Kind: Obsolete, Job: e.call.Job, Pod: e.call.Pod, Node: e.call.Node})
	}
	if b := e.batch; e.cancelled && b.needs > 0 && b.aborted == "" {
		m.abort(now, b, "pod "+e.call.Pod.Name+" was deleted")
	}
}

// become makes the entry of a bind without further attempts another call about its pod: CallRelease of what is reserved, or
// CallGetPod. outcome is that of the bind, unless the answer to the call says otherwise.
func (m *Machine) become(now time.Time, e *entry, kind Kind, outcome Outcome) {
	m.removeFromState(e)
	e.state, e.outcome = waiting, outcome
	e.call.Kind, e.call.Attempt, e.message = kind, 0, ""
	if m.targetQueues[e.target()][0] == e {
		m.makeReady(now, e)
	}
}

// released takes the answer to a call that releases. When that failed, the API server keeps the reservation; the next attempt
// to place the pod finds it.
func (m *Machine) released(now time.Time, e *entry, err error) {
	if e.batch == nil {
		m.unlink(now, e)
		if !e.orphan {
			m.report(now, Outcome{Kind: Released, Pod: e.call.Pod, Message: e.message})
		}
		return
	}
	if err != nil {
		e.outcome.Message += "; what was set aside could not be given back: " + err.Error()
	}
	m.finalizeDecision(now, e, e.outcome)
}

// ReleasePrepared releases what is reserved for a pod whose bind was uncertain and turned out to have failed. The outcome
// Released follows.
func (m *Machine) ReleasePrepared(now time.Time, pod model.PodRef) {
	m.enqueueForTarget(now, &entry{call: Call{Kind: CallRelease, Pod: pod}})
}

// ReleaseOrphaned releases what a pod that is not placed holds since a start of an earlier process. No outcome follows: the pod
// may be placed again before the answer is taken in.
func (m *Machine) ReleaseOrphaned(now time.Time, pod model.PodRef) {
	m.enqueueForTarget(now, &entry{call: Call{Kind: CallRelease, Pod: pod}, orphan: true})
}
