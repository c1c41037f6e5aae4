package commit

import "time"

// This file is which call leaves next.

// Calls returns the calls to be sent now, most urgent kind first, and counts them as in flight; the owner sends every one and
// returns its Reply.
func (m *Machine) Calls(now time.Time) []Call {
	m.advance(now)
	if m.pause.holds(now) {
		return nil
	}
	var calls []Call
	for m.preparing < m.options.Preparing {
		e := m.queue(CallRelease).next()
		if e == nil {
			e = m.queue(CallPrepare).next()
		}
		if e == nil {
			break
		}
		calls = append(calls, m.send(now, e))
	}
	for len(m.sent)-m.preparing < m.options.Workers {
		e := m.pick(now)
		if e == nil {
			break
		}
		calls = append(calls, m.send(now, e))
	}
	return calls
}

// pick returns the ready entry whose turn it is, nil when there is none.
func (m *Machine) pick(now time.Time) *entry {
	if e := m.starved(now); e != nil {
		m.starvedSlot = true
		return e
	}
	for kind := CallGetPod; kind < kinds; kind++ {
		if e := m.queue(kind).next(); e != nil && (kind.isDecision() || m.maySendWrite(now)) {
			return e
		}
	}
	return nil
}

// maySendWrite reports whether another write may be in flight.
func (m *Machine) maySendWrite(now time.Time) bool {
	return m.writes < m.options.Writes && !m.writePause.holds(now)
}

// starvationLimit is how long any call but a bind waits behind binds before it gets one slot, a decision before a write.
const starvationLimit = time.Second

// starved returns an entry that has waited behind binds for longer than starvationLimit, if no slot is used for such an entry:
// one of a decision if there is one, else a write. A write in flight does not keep a decision from its slot.
func (m *Machine) starved(now time.Time) *entry {
	if m.starvedSlot {
		return nil
	}
	if m.others == 0 {
		if e := m.oldest(now, CallBind+1, CallGroupStatus); e != nil {
			return e
		}
	}
	if m.writes > 0 || !m.maySendWrite(now) {
		return nil
	}
	return m.oldest(now, CallGroupStatus, kinds)
}

// oldest returns, of the calls of some kinds whose turn it is, the one that has waited longest, and for longer than
// starvationLimit; nil when there is none.
func (m *Machine) oldest(now time.Time, first, end Kind) (oldest *entry) {
	for kind := first; kind < end; kind++ {
		e := m.queue(kind).next()
		if e != nil && now.Sub(e.since) >= starvationLimit && (oldest == nil || e.since.Before(oldest.since)) {
			oldest = e
		}
	}
	return oldest
}

func (m *Machine) send(now time.Time, e *entry) Call {
	m.queue(e.call.Kind).remove(e, true)
	m.lastID++
	e.state = sent
	e.call.ID = m.lastID
	e.call.Attempt++
	e.sentAt = now
	m.sent[e.call.ID] = e
	switch kind := e.call.Kind; {
	case kind.prepares():
		m.preparing++
		return e.call
	case kind.isFair():
		m.starvedSlot = false
	case !kind.isDecision():
		m.writes++
	case !kind.hasPriority():
		m.others++
	}
	if b := e.batch; b != nil && b.deadline.IsZero() && !b.noDeadline {
		m.setDeadline(b, now.Add(Deadline(m.options.BindDeadline, len(b.entries))))
	}
	return e.call
}
