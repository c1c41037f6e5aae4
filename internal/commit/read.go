package commit

import (
	"errors"
	"time"
)

// This file finds out the result of binds whose answer was lost. While there is time a bind is sent again, which is harmless:
// the API server binds a pod once. When there is no further attempt, because one was refused, the deadline has passed or the
// decision is cancelled, the pod is read, from a quorum of etcd and not from a cache. The server's answer is the outcome:
// nothing is guessed, and nothing is released that may be in use.

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
			m.rest(e, settled) // a bind may be in flight still
			return
		}
		m.failBind(now, e, e.outcome)
	case v.class == refused:
		e.outcome.Kind, e.outcome.Prepared, e.outcome.Refused, e.outcome.StaleVersion = BindUncertain, e.holds, false, ""
		e.outcome.Message += "; " + err.Error()
		m.failBind(now, e, e.outcome)
	default: // only an answer ends it: as long as there is none, the pod could not be bound again either
		m.rest(e, now.Add(max(v.retryAfter, m.retryDelay(e.target().uid, e.call.Attempt))))
	}
}
