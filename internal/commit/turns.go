package commit

// fairQueue has the ready binds, and the deletions that undo binds. Decisions have their turns in the order in which they
// came, and in a turn up to burst of their calls are sent: a gang of ten thousand delays one of eight by one burst, not by
// all of its binds.
//
// A gang that fits into a burst is bound without a break, so that the time between its first bind and its minimum, in which a
// crash would leave it interrupted, is as short as possible. Larger ones share: with n of them, each takes n times as long.
// Turns of single binds would be fairer still, but would leave every gang partly bound for longer.
//
// The zero value is empty; burst must be set.
type fairQueue struct {
	burst int
	// groups are the decisions with something to send, in the order of their turns.
	groups fifo[callGroup, *callGroup]
	// length is how many calls all of them have.
	length int
}

// next returns the bind whose turn it is, nil when there is none.
func (t *fairQueue) next() *entry {
	if t.groups.first == nil {
		return nil
	}
	return t.groups.first.ready.first
}

func (t *fairQueue) push(e *entry) {
	e.batch.ready.push(e)
	t.length++
	if e.batch.ready.length == 1 {
		t.groups.push(e.batch)
	}
}

// pushFront puts a bind before the others of its decision, and the decision before others if it had nothing to send.
func (t *fairQueue) pushFront(e *entry) {
	e.batch.ready.pushFront(e)
	t.length++
	if e.batch.ready.length == 1 {
		t.groups.pushFront(e.batch)
	}
}

// remove removes a bind from the queue; served reports whether it is sent now.
func (t *fairQueue) remove(e *entry, served bool) {
	b := e.batch
	b.ready.remove(e)
	t.length--
	if served {
		b.lastSent++
	}
	switch {
	case b.ready.length == 0:
		b.lastSent = 0
		t.groups.remove(b)
	case b.lastSent >= t.burst:
		b.lastSent = 0
		t.groups.remove(b)
		t.groups.push(b)
	}
}

// isFair reports whether calls of this kind are sent in turns.
func (k Kind) isFair() bool { return k == CallBind || k == CallDeleteStarted }

// enqueue puts a ready entry into its queue, enqueueFirst before others of its kind or decision.
func (m *Machine) enqueue(e *entry) {
	if e.call.Kind.isFair() {
		m.turns.push(e)
	} else {
		m.queues[e.call.Kind].push(e)
	}
}

func (m *Machine) enqueueFirst(e *entry) {
	if e.call.Kind.isFair() {
		m.turns.pushFront(e)
	} else {
		m.queues[e.call.Kind].pushFront(e)
	}
}

// dequeue removes a ready entry from its queue; sent reports whether it is sent now.
func (m *Machine) dequeue(e *entry, sent bool) {
	if e.call.Kind.isFair() {
		m.turns.remove(e, sent)
	} else {
		m.queues[e.call.Kind].remove(e)
	}
}

// head returns the entry of a kind whose turn it is, nil when there is none. All kinds that take turns have the same.
func (m *Machine) head(kind Kind) *entry {
	if kind.isFair() {
		return m.turns.next()
	}
	return m.queues[kind].first
}
