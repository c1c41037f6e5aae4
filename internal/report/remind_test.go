package report

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestTheReasonIsRepeatedBeforeItsEventExpires: an event is kept for an hour. The oldest member that waits gets another one every
// half hour, and nothing else is written; a process that begins later goes on with the same times.
func TestTheReasonIsRepeatedBeforeItsEventExpires(t *testing.T) {
	d := newDesk()
	key := d.gang("a", "g", 3, model.InsufficientResources)
	if got := d.after(0)["a"]; got != (told{1, 3, 2}) {
		t.Errorf("first: %+v", got)
	}
	if got := d.after(time.Minute); got["a"] != (told{events: 2}) || d.wake.Sub(d.now) != 29*time.Minute {
		t.Errorf("the first event of each other member: %v, asks to be called in %s", got, d.wake.Sub(d.now))
	}
	for range 3 {
		if got := d.after(d.wake.Sub(d.now)); len(got) != 1 || got["a"] != (told{events: 1}) {
			t.Errorf("after half an hour: %v", got)
		}
	}
	begins := newDesk()
	begins.now, begins.jobs, begins.groups, begins.pods, begins.refusals = d.now.Add(time.Minute), d.jobs, d.groups, d.pods, d.refusals
	if got := begins.after(0); len(got) != 0 || begins.wake.Sub(begins.now) != 29*time.Minute {
		t.Errorf("another process: %v, asks to be called in %s", got, begins.wake.Sub(begins.now))
	}
	d.says(key, model.NotEnoughMembers)
	if got := d.after(10 * time.Minute)["a"]; got != (told{1, 3, 2}) || d.wake.Sub(d.now) != repeatAfter {
		t.Errorf("another reason: %+v, asks to be called in %s", got, d.wake.Sub(d.now))
	}
	delete(d.refusals, key)
	d.start(key)
	d.after(time.Hour)
	if got := d.after(time.Hour); len(got) != 0 || !d.wake.IsZero() || len(d.repeats) != 0 {
		t.Errorf("started: %v, wakes at %s, remembers %v", got, d.wake, d.repeats)
	}
}

// TestRepeatedReasonsAreInTheBudget: of thousands of pods without a group each is the oldest of its job.
func TestRepeatedReasonsAreInTheBudget(t *testing.T) {
	d := newDesk()
	for i := range mostRepeated + 1 {
		d.gang("a", string(rune('a'+i%26))+string(rune('a'+i/26)), 1, model.InsufficientResources)
	}
	d.after(0)
	if got := d.after(repeatAfter)["a"]; got != (told{events: mostRepeated}) {
		t.Errorf("%+v", got)
	}
	if got := d.after(budgetWindow)["a"]; got != (told{events: 1}) {
		t.Errorf("in the next window: %+v", got)
	}
}

// TestEachMemberHasAnEventOfItsFirstRefusal, once, when it has waited for a while; one that has a node by then has none. All of a
// gang of the largest size that is measured have theirs within 110 s, and conditions and statuses come before.
func TestEachMemberHasAnEventOfItsFirstRefusal(t *testing.T) {
	const members = mostUrgent
	d := newDesk()
	big := d.gang("a", "big", members, model.InsufficientResources)
	short := d.gang("a", "short", 100, model.NotEnoughMembers)
	soon := d.gang("b", "soon", 3, model.NotEnoughMembers)
	d.after(0)
	d.start(soon)
	delete(d.refusals, soon)
	events, conditions := 0, 0
	for range 10 {
		got := d.after(time.Second)
		events += got["a"].events
		conditions += got["a"].pods
		if got["b"].events > 1 { // that the gang has started
			t.Errorf("it has started: %+v", got["b"])
		}
	}
	if conditions != 100 || events > mostRepeated+1 { // and one of the oldest of another gang
		t.Errorf("in the second window %d conditions, %d events", conditions, events)
	}
	d.says(short, model.QueueLimit)
	if got := d.after(budgetWindow)["a"]; got.pods != 100 || got.groups != 1 {
		t.Errorf("another reason while events wait: %+v", got)
	}
	for range 9 {
		events += d.after(budgetWindow)["a"].events
	}
	for range 3 {
		d.after(budgetWindow)
	}
	if got := d.after(time.Minute)["a"]; got != (told{}) || len(d.repeats) != 2 {
		t.Errorf("at rest %+v, and %d events are due", got, len(d.repeats))
	}
	if most, all := 11*mostRepeated, members-1; events < all-mostRepeated || events > most {
		t.Errorf("%d events of %s within 110 s", events, big)
	}
}
