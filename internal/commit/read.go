package commit

import (
	"errors"
	"time"
)

// This file finds out the result of binds whose answer was lost. While there is time a bind is sent again, which is harmless:
// the API server binds a pod once. When there is no further attempt, because one was refused, the deadline has passed or the
// decision is cancelled, the pod is read, from a quorum of etcd and not from a cache. The server's answer is the outcome:
// nothing is guessed, and nothing is released that may be in use.

// ask makes an entry of a bind without further attempts read its pod; outcome is the result if the pod was not bound.
func (m *Machine) ask(now time.Time, e *entry, outcome Outcome) {
	m.removeFromState(e)
	e.outcome = outcome
	e.call.Kind, e.call.Attempt, e.message = CallGetPod, 0, ""
	e.state = waiting
	if m.targetQueues[e.target()][0] == e {
		m.makeReady(now, e)
	}
}

// read takes the answer to a CallGetPod.
func (m *Machine) read(now time.Time, e *entry, err error, v verdict) {
	switch {
	case err == nil:
		m.bound(now, e)
	case e.cancelled || v.class == gone:
		e.outcome.PodGone = true
		m.failBind(now, e, e.outcome)
	case errors.Is(err, ErrElsewhere):
		e.outcome.Message += "; " + err.Error()
		m.failBind(now, e, e.outcome)
	case errors.Is(err, ErrNotBound):
		if settled := e.lostAt.Add(m.options.RequestTimeout); e.sentAt.Before(settled) {
			m.readAgain(e, settled) // a bind may be in flight still
			return
		}
		m.failBind(now, e, e.outcome)
	case v.class == refused:
		e.outcome.Kind, e.outcome.Prepared, e.outcome.Refused, e.outcome.StaleVersion = BindUncertain, e.holds, false, ""
		e.outcome.Message += "; " + err.Error()
		m.failBind(now, e, e.outcome)
	default:
		m.readAgain(e, now.Add(max(v.retryAfter, m.retryDelay(e.target().uid, e.call.Attempt))))
	}
}

// readAgain reads once more at that time. Only an answer ends it: as long as there is none, the pod could not be bound again
// either.
func (m *Machine) readAgain(e *entry, at time.Time) {
	m.completeFlight(e)
	e.state = backingOff
	e.notBefore = at
	m.resting.add(at, e)
}
