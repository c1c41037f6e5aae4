package report

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// writer decides when what is offered about objects is written: not too soon after the last write about the object, not while
// the API server refuses it, and within the budgets. What waits is not stored: the next report offers it again, from what is true
// then.
type writer struct {
	// sent are the last writes by the UID of their object, and refused the objects of which the API server refused one.
	sent    map[types.UID]record
	refused *backoff.Backoff[types.UID]
	// most is how many writes there are in any second, any number by default, and budget and urgent are of each account. Once there
	// are no more writes in a second, the next report is made after pause, or later.
	most           window
	pause          time.Duration
	budget, urgent budget
	// generation counts the reports. due is what this one offers and may be written now, and wake when the next one is to be made
	// at the latest; zero when nothing is delayed.
	generation int
	due        []*offer
	wake       time.Time
}

// offer is what an object is to show, and the writes that make it so.
type offer struct {
	object types.UID
	from   account
	// before and after are what the object shows and is to show in a few words. Where they are the same, it is written so long
	// after the last write as every says; see record.delay.
	before, after string
	every         time.Duration
	// immediate reports that it is not delayed, unless the API server refuses it, and urgent that it is in the larger budget.
	immediate, urgent bool
	// shows is what it is to show, and reason the last one that an event says of it.
	shows  any
	reason string
	// write is called when it is written.
	write func() []commit.Write
	// What is due is written in the order of rank, of when the object was written last, zero when that is long ago or it never was,
	// and of key.
	rank int
	last time.Time
	key  model.JobKey
}

// record is what is kept of the last write about an object: until the watch has shown it and the next write may follow without
// a delay, or while the API server refuses it.
type record struct {
	at time.Time
	// generation is of the last report that kept it.
	generation int
	// refused says that the API server refused it.
	refused bool
	// shows is what the object was to show with it, and lastReason the reason of the last event.
	shows      any
	lastReason string
	// replaced is the phase and reason, or the reason, that was replaced by another one at changed.
	replaced string
	changed  time.Time
}

// delay returns when a difference may be written that needs interval after the last write where phase and reason stay.
func (r record) delay(before, after string, interval time.Duration) time.Time {
	switch {
	case before == after:
		return r.at.Add(interval)
	case after == r.replaced:
		return r.changed.Add(flipInterval)
	}
	return r.at
}

// holds reports whether what was sent counts as what the API server has.
func (r record) holds(now time.Time) bool {
	return !r.at.IsZero() && !r.refused && now.Sub(r.at) < echoTimeout
}

// currentOf returns what counts as what an object shows: what was sent while it holds, else what the watch has shown.
func currentOf[S any](last record, shown S, now time.Time) S {
	if sent, is := last.shows.(S); is && last.holds(now) {
		return sent
	}
	return shown
}

func newWriter(refused backoff.Policy) *writer {
	return &writer{
		sent: map[types.UID]record{}, refused: backoff.New[types.UID](refused),
		budget: budget{most: mostRepeated}, urgent: budget{most: mostUrgent},
	}
}

// begin begins a report.
func (w *writer) begin() {
	w.generation++
	w.due, w.wake = nil, time.Time{}
}

// keep keeps the record of an object for one more report, if there is one, and returns it.
func (w *writer) keep(object types.UID) record {
	last, known := w.sent[object]
	if known {
		last.generation = w.generation
		w.sent[object] = last
	}
	return last
}

// offer offers to write about an object.
func (w *writer) offer(o offer, now time.Time) {
	last := w.keep(o.object)
	due := last.delay(o.before, o.after, o.every)
	switch {
	case last.refused:
		due = w.refused.Until(o.object)
	case o.immediate:
		due = now
	}
	next := record{at: now, generation: w.generation, shows: o.shows, lastReason: o.reason, replaced: last.replaced, changed: last.changed}
	if o.before != o.after {
		next.replaced, next.changed = o.before, now
	}
	o.last = last.at
	write := o.write
	o.write = func() []commit.Write {
		w.sent[o.object] = next
		return write()
	}
	w.offerAt(o, due, now)
}

// offerAt offers a write from a time on, without a record.
func (w *writer) offerAt(o offer, due, now time.Time) {
	if due.After(now) {
		w.requeue(due)
		return
	}
	w.due = append(w.due, &o)
}

// settle is about an object of which nothing is to be written. It reports whether the record of the last write is kept: until the
// watch has shown it and the next one may follow without a delay, and while the budget is used up, so that others come first.
func (w *writer) settle(object types.UID, from account, shown bool, now time.Time) (kept bool) {
	switch last := w.sent[object]; {
	case !last.holds(now):
		return false
	case !shown:
		w.requeue(last.at.Add(echoTimeout))
	case now.Sub(last.at) >= messageInterval && !w.budget.exceeded(from, now) && !w.urgent.exceeded(from, now):
		return false
	}
	w.keep(object)
	return true
}

// fail records that the API server refused the last write about an object.
func (w *writer) fail(object types.UID, now time.Time) {
	last := w.sent[object]
	last.at, last.refused = now, true
	w.sent[object] = last
	w.refused.Fail(object, nil, now)
}

// taken records that the API server has taken the last write about an object, or that the object shows what is to be written.
func (w *writer) taken(object types.UID) {
	if last, known := w.sent[object]; known {
		last.refused = false
		w.sent[object] = last
	}
	w.refused.Reset(object)
}

// forget drops what is known of an object.
func (w *writer) forget(object types.UID) {
	delete(w.sent, object)
	w.refused.Reset(object)
}

// writes returns the writes that are in their budgets. Of n urgent writes of a namespace the last one waits for n / mostUrgent
// windows.
func (w *writer) writes(now time.Time) (writes []commit.Write) {
	slices.SortStableFunc(w.due, func(a, b *offer) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), a.last.Compare(b.last), a.key.Compare(b.key))
	})
	for _, o := range w.due {
		if free := w.most.free(); free.After(now) {
			w.requeue(slices.MaxFunc([]time.Time{free, now.Add(w.pause)}, time.Time.Compare))
			break
		}
		from := &w.budget
		if o.urgent {
			from = &w.urgent
		}
		if !from.take(o.from, now) {
			w.requeue(from.ends)
			continue
		}
		w.most.take(now)
		writes = append(writes, o.write()...)
	}
	w.due = nil
	return writes
}

// prune drops the records that this report did not keep: their objects are gone, confirmed or no longer waiting.
func (w *writer) prune() {
	for object, last := range w.sent {
		if last.generation != w.generation {
			w.forget(object)
		}
	}
}

// requeue asks for the next report.
func (w *writer) requeue(at time.Time) { w.wake = model.Sooner(w.wake, at) }
