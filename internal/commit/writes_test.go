package commit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// of moves a write to the object of that name in another namespace.
func of(namespace string, write Write) Write {
	switch write := write.(type) {
	case *GroupStatus:
		write.Namespace, write.UID = namespace, "uid-"+write.UID
	case *Event:
		write.Regarding.Namespace = namespace
	case *PodCondition:
		write.Pod.Namespace = namespace
	}
	return write
}

// TestABusyServerPausesWritesAlone when it says so of a write, and binds, evictions and deletions go on.
func TestABusyServerPausesWritesAlone(t *testing.T) {
	p := play(t, Options{Workers: 4, Backoff: 100 * time.Millisecond})
	p.write(group("g", 1))
	p.write(condition("c", "x"))
	p.expectCalls("GroupStatus g=1, PodCondition c=x")
	p.replies(errBusy, "g", "c") // both were sent before the pause: it counts once
	p.write(event("e", "Scheduled", "x"))
	p.submit(binds("j", "b"))
	p.submit(evictions("k", "v"))
	p.expectCalls("Bind b, Evict v")
	p.replies(nil, "b", "v")
	if at, ok := p.NextWake(); !ok || at.Sub(p.now) > 100*time.Millisecond || !at.After(p.now) {
		t.Errorf("wakes after %s, %t", at.Sub(p.now), ok)
	}
	p.pass(100 * time.Millisecond)
	p.expectCalls("GroupStatus g=1 #2, PodCondition c=x #2")
	p.replies(nil, "g", "c")
	p.submit(binds("l", "d"))
	p.expectCalls("Bind d, Event e=x")
	p.reply("d", errBusy) // of a decision: all calls wait
	p.write(group("g", 2))
	p.expectCalls("")
	p.pass(100 * time.Millisecond)
	p.expectCalls("Bind d #2, GroupStatus g=2")
	p.replies(nil, "d", "g", "e")
	if counts := p.TakeCounts(); counts.Paused != counts.WritesPaused || counts.Paused <= 0 || counts.Paused > 100*time.Millisecond {
		t.Errorf("paused %s, writes %s", counts.Paused, counts.WritesPaused)
	}
	p.said = nil
	p.end()
}

// TestWritesLeaveWorkersToDecisions: however many writes there are, and however slow they are, half of the workers are free.
func TestWritesLeaveWorkersToDecisions(t *testing.T) {
	p := play(t, Options{Workers: 4})
	for i := range 9 {
		p.write(group(fmt.Sprint("g", i), 1))
	}
	p.expectCalls("GroupStatus g0=1, GroupStatus g1=1")
	if at, ok := p.NextWake(); ok {
		t.Errorf("wakes at %s without anything to do", at)
	}
	p.submit(binds("j", "b0", "b1"))
	p.submit(evictions("k", "v"))
	p.expectCalls("Bind b0, Bind b1")
	p.replies(nil, "b0")
	p.expectCalls("Evict v")
	p.replies(nil, "b1", "v", "g0")
	p.expectCalls("GroupStatus g2=1")
	p.said = nil
}

// TestAStarvedDecisionGoesBeforeWrites that have waited longer, and beside one that is in flight.
func TestAStarvedDecisionGoesBeforeWrites(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.write(group("g0", 1))
	p.write(group("g1", 1))
	p.submit(binds("j", gangOf("b", 8)...))
	p.expectCalls("Bind b0, Bind b1")
	p.pass(time.Second)
	p.replies(nil, "b0")
	p.expectCalls("GroupStatus g0=1")
	p.submit(evictions("k", "v"))
	p.pass(time.Second)
	p.replies(nil, "b1")
	p.expectCalls("Bind b2") // the slot was used
	p.pass(time.Second)
	p.replies(nil, "b2")
	p.expectCalls("Evict v")
	p.replies(nil, "g0", "v")
	p.expectCalls("Bind b3, GroupStatus g1=1")
}

// TestNamespacesTakeTurns: of a flood in one namespace another one waits for one write, of whichever kind its own are.
func TestNamespacesTakeTurns(t *testing.T) {
	p := play(t, Options{Workers: 2, Writes: 1})
	for i := range 3 {
		p.write(of("flood", group(fmt.Sprint("f", i), 1)))
		p.write(of("flood", event(fmt.Sprint("e", i), "Scheduled", "x")))
	}
	p.write(of("quiet", group("q0", 1)))
	p.write(of("quiet", group("q1", 1)))
	p.write(of("quiet", event("q2", "Scheduled", "x")))
	for _, want := range []string{"f0", "q0", "f1", "q1", "f2", "e0", "q2", "e1", "e2"} {
		calls := p.Calls(p.now)
		if len(calls) != 1 || !slices.Contains([]string{"GroupStatus " + want + "=1", "Event " + want + "=x"}, words(calls)) {
			t.Fatalf("%q, want %s", words(calls), want)
		}
		p.heard(p.Reply(p.now, Reply{ID: calls[0].ID}))
	}
	p.end()
}

// TestAFullQueueOfEventsDropsThoseOfTheNamespaceThatHasMost, the newest of them, and counts them.
func TestAFullQueueOfEventsDropsThoseOfTheNamespaceThatHasMost(t *testing.T) {
	p := play(t, Options{MaxEvents: 4})
	for i := range 6 {
		p.write(of("flood", event(fmt.Sprint("f", i), "Scheduled", "x")))
	}
	p.write(of("quiet", event("q0", "Preempted", "x")))
	p.write(of("quiet", event("q1", "StartUndone", "x")))
	p.write(of("quiet", event("q2", "StartUndone", "x"))) // now it is the one that has most
	p.expectCalls("Event f0=x, Event q0=x, Event f1=x, Event q1=x")
	if got := p.TakeCounts().DroppedEvents; got != 5 {
		t.Errorf("%d dropped, want 5", got)
	}
	p.replies(nil, "f0", "q0", "f1", "q1")
	p.end()
}

// TestAnswersAreCounted by kind and code, each once.
func TestAnswersAreCounted(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.submit(binds("j", "a", "b", "c"))
	p.write(group("g", 1))
	p.calls()
	if counts := p.TakeCounts(); counts.InFlight != 2 || counts.Queued[CallBind] != 1 || counts.Queued[CallGroupStatus] != 1 || counts.Answers != nil {
		t.Errorf("counts %+v", counts)
	}
	p.reply("a", nil)
	p.reply("b", ErrNotLeading)
	p.calls()
	p.reply("c", errLost)
	p.reply("g", errDenied)
	want := map[Answer]uint64{{CallBind, CodeOK}: 1, {CallBind, CodeUnsent}: 1, {CallBind, CodeError}: 1, {CallGroupStatus, "403"}: 1}
	if counts := p.TakeCounts(); !maps.Equal(counts.Answers, want) {
		t.Errorf("answers %v", counts.Answers)
	}
	if counts := p.TakeCounts(); len(counts.Answers) != 0 {
		t.Errorf("answers %v are counted again", counts.Answers)
	}
}

// TestADeletionOfAGroupGoesLast, behind binds and all other writes, and leaves workers to decisions as they do.
func TestADeletionOfAGroupGoesLast(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.write(deletion("a"))
	p.write(deletion("b"))
	p.write(event("e", "Scheduled", "x"))
	p.submit(binds("j", "b0", "b1", "b2"))
	p.expectCalls("Bind b0, Bind b1")
	p.replies(nil, "b0", "b1")
	p.expectCalls("Bind b2, Event e=x")
	p.replies(nil, "b2", "e")
	p.expectCalls("DeleteGroup a")
	p.replies(nil, "a")
	p.expectCalls("DeleteGroup b")
	p.replies(nil, "b")
	p.said = nil
	p.end()
}

// TestADeletionOfAGroupHasOneAttempt, whatever the answer: what has changed by then decides about another one.
func TestADeletionOfAGroupHasOneAttempt(t *testing.T) {
	changed := apierrors.NewConflict(v1alpha1.Resource("podgroups"), "g", errors.New("Precondition failed: ResourceVersion in precondition: 7"))
	for _, err := range []error{errLost, errServer, errBusy, errGone, errDenied, changed, ErrNotLeading} {
		p := play(t, Options{})
		p.write(deletion("g"))
		p.expectCalls("DeleteGroup g")
		p.reply("g", err)
		p.pass(time.Minute)
		p.expectCalls("")
		if len(p.said) != 1 || !strings.HasPrefix(p.said[0], "WriteFailed") {
			t.Errorf("%v: %q", err, p.said)
		}
		p.said = nil
		p.end()
	}
}

// TestAStatusReplacesTheDeletionOfItsGroup that is not sent, and is itself not replaced by one.
func TestAStatusReplacesTheDeletionOfItsGroup(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.write(group("first", 1))
	p.expectCalls("GroupStatus first=1")
	p.write(deletion("g"))
	p.write(deletion("g"))
	p.write(group("g", 1))
	p.write(deletion("h"))
	p.replies(nil, "first")
	p.expectCalls("GroupStatus g=1")
	p.write(deletion("g"))
	p.reply("g", errServer)
	p.expectCalls("DeleteGroup h")
	p.write(group("h", 1)) // after the deletion, which was sent
	p.reply("h", nil)
	p.expectCalls("GroupStatus h=1")
	p.reply("h", errGone)
	p.said = nil
	p.pass(time.Second)
	p.expectCalls("GroupStatus g=1 #2")
	p.replies(nil, "g")
	p.expectCalls("DeleteGroup g")
	p.replies(nil, "g")
	p.end()
}
