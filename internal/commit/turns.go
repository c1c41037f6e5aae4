package commit

import "container/list"

// fairQueue has the ready calls of one kind, or of binds and of the deletions that undo them, by the holder of a turn: a
// decision, or the namespace of writes. Turns come in the order in which they began, and in one up to burst calls are sent: a
// gang of ten thousand delays one of eight by one burst, not by all of its binds, and a namespace delays the status of another
// one by one write. What has no turns has one that all share.
//
// A gang that fits into a burst is bound without a break, so that the time between its first bind and its minimum, in which a
// crash would leave it interrupted, is as short as possible. Larger ones share: with n of them, each takes n times as long.
// Turns of single binds would be fairer still, but would leave every gang partly bound for longer.
//
// The zero value is empty; burst must be set.
type fairQueue struct {
	burst int
	// turns are those with something to send, in their order: a *turn each.
	turns list.List
	// length is how many calls all of them have.
	length int
	// shared is the turn of calls without turns, namespaces are those of writes with something to send.
	shared     turn
	namespaces map[string]*turn
}

// turn has the calls to be sent of one decision or namespace, an *entry each; sent counts those sent in this turn.
type turn struct {
	ready list.List
	sent  int
	// at is its place among the turns with something to send.
	at *list.Element
}

// next returns the call whose turn it is, nil when there is none.
func (q *fairQueue) next() *entry {
	if q.length == 0 {
		return nil
	}
	return q.turns.Front().Value.(*turn).ready.Front().Value.(*entry)
}

// of returns the turn of a call.
func (q *fairQueue) of(e *entry) *turn {
	switch kind := e.call.Kind; {
	case kind.isFair():
		return &e.batch.turn
	case kind.isDecision():
		return &q.shared
	}
	_, namespace, _ := e.call.Write.about()
	if q.namespaces == nil {
		q.namespaces = map[string]*turn{}
	}
	if q.namespaces[namespace] == nil {
		q.namespaces[namespace] = &turn{}
	}
	return q.namespaces[namespace]
}

// push puts a call behind the others of its turn, and the turn behind others if it had nothing to send.
func (q *fairQueue) push(e *entry) { q.put(e, (*list.List).PushBack) }

// pushFront puts a call before the others of its turn, and the turn before others if it had nothing to send.
func (q *fairQueue) pushFront(e *entry) { q.put(e, (*list.List).PushFront) }

func (q *fairQueue) put(e *entry, into func(*list.List, any) *list.Element) {
	t := q.of(e)
	e.at = into(&t.ready, e)
	q.length++
	if t.ready.Len() == 1 {
		t.at = into(&q.turns, t)
	}
}

// remove removes a call from the queue; served reports whether it is sent now.
func (q *fairQueue) remove(e *entry, served bool) {
	t := q.of(e)
	t.ready.Remove(e.at)
	q.length--
	if served {
		t.sent++
	}
	switch {
	case t.ready.Len() == 0:
		t.sent = 0
		q.turns.Remove(t.at)
		if !e.call.Kind.isDecision() {
			_, namespace, _ := e.call.Write.about()
			delete(q.namespaces, namespace)
		}
	case t.sent >= q.burst:
		t.sent = 0
		q.turns.MoveToBack(t.at)
	}
}

// longest returns the last call of the turn with the most calls, nil when there is none; of equals that of the one whose turn
// comes last.
func (q *fairQueue) longest() *entry {
	var most *turn
	for at := q.turns.Front(); at != nil; at = at.Next() {
		if t := at.Value.(*turn); most == nil || t.ready.Len() >= most.ready.Len() {
			most = t
		}
	}
	if most == nil {
		return nil
	}
	return most.ready.Back().Value.(*entry)
}

// isFair reports whether calls of this kind are sent in turns of decisions.
func (k Kind) isFair() bool { return k == CallBind || k == CallDeleteStarted }

// queue returns the queue of a kind. Binds and the deletions that undo binds have one in common.
func (m *Machine) queue(kind Kind) *fairQueue {
	if kind.isFair() {
		kind = CallBind
	}
	return &m.queues[kind]
}
