package commit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

var (
	start      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	bindings   = schema.GroupResource{Resource: "pods/binding"}
	errLost    = errors.New("read tcp: connection reset by peer")
	errServer  = apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	errBusy    = apierrors.NewTooManyRequests("too many requests", 0)
	errTaken   = apierrors.NewConflict(bindings, "p", errors.New(`pod p is already assigned to node "x"`))
	errLeave   = apierrors.NewConflict(bindings, "p", errors.New("pod p is being deleted, cannot be assigned to a host"))
	errUID     = apierrors.NewConflict(bindings, "p", errors.New("precondition failed: UID in precondition: a, UID in object meta: b"))
	errGone    = apierrors.NewNotFound(bindings, "p")
	errRotated = apierrors.NewUnauthorized("token expired")
	errDenied  = apierrors.NewForbidden(bindings, "p", errors.New("no"))
)

func budget() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "needs 2"})
	return err
}

func pod(name string) model.PodRef {
	return model.PodRef{UID: types.UID("uid-" + name), Namespace: "ns", Name: name}
}

func binds(job string, pods ...string) model.Decision {
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: job}, MinBinds: len(pods)}
	for _, name := range pods {
		decision.Binds = append(decision.Binds, model.Bind{Pod: pod(name), Node: "node-" + name})
	}
	return decision
}

func evictions(job string, pods ...string) model.Decision {
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: job}}
	for _, name := range pods {
		decision.Evictions = append(decision.Evictions, model.Eviction{Pod: pod(name), Node: "node-" + name})
	}
	return decision
}

func condition(name, message string) Write {
	return &PodCondition{Pod: pod(name), Condition: corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message,
	}}
}

func group(name string, placed int32) Write {
	return &GroupStatus{
		Namespace: "ns", Name: name, UID: types.UID("uid-group-" + name), Status: v1alpha1.PodGroupStatus{Placed: placed},
	}
}

// foreign is the first status of a group of another project.
func foreign(name, phase string) Write {
	return &ForeignStatus{
		Resource: schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"},
		Group:    model.JobKey{Namespace: "ns", Name: name, Source: model.SourceVolcano}, UID: types.UID("uid-foreign-" + name), Phase: phase,
	}
}

func queueStatus(name string, running int32) Write {
	return &QueueStatus{Name: name, UID: types.UID("uid-queue-" + name), Status: v1alpha1.QueueStatus{Running: running}}
}

func deletion(name string) Write {
	return &GroupDeletion{Namespace: "ns", Name: name, UID: types.UID("uid-group-" + name), ResourceVersion: "7"}
}

func event(name, reason, note string) Write {
	return &Event{
		Regarding: corev1.ObjectReference{Namespace: "ns", Name: name, UID: pod(name).UID}, Reason: reason, Note: note,
	}
}

// player drives a machine step by step: the clock moves only on request.
type player struct {
	t *testing.T
	*Machine
	now      time.Time
	inFlight []Call
	said     []string
}

func play(t *testing.T, options Options) *player {
	t.Helper()
	return &player{t: t, Machine: New(options), now: start}
}

func (p *player) submit(decision model.Decision) { p.Submit(p.now, decision) }
func (p *player) write(write Write)              { p.Write(p.now, write) }

func (p *player) heard(outcomes []Outcome) {
	for _, o := range outcomes {
		line := o.Kind.String() + " "
		switch o.Kind {
		case Committed:
			line += fmt.Sprintf("%s needs=%d bound=%d failed=%d uncertain=%d", o.Job.Name, o.Needs, o.Bound, o.Failed, o.Uncertain)
		case VictimsGone:
			line += fmt.Sprintf("%s pods=%d members=%d failed=%d", o.Job.Name, len(o.Victims), o.Members, o.Failed)
		default:
			line += o.Pod.Name
		}
		if o.Refused {
			line += " refused"
		}
		if o.Superseded {
			line += " overtaken"
		}
		if o.PodGone {
			line += " gone"
		}
		p.said = append(p.said, line)
	}
}

// calls sends the calls that are due and returns them as text.
func (p *player) calls() string {
	calls := p.Calls(p.now)
	p.inFlight = append(p.inFlight, calls...)
	return words(calls)
}

func words(calls []Call) string {
	var words []string
	for _, c := range calls {
		word := c.Kind.String()
		switch c.Kind {
		case CallGroupStatus:
			word += fmt.Sprintf(" %s=%d", c.Write.(*GroupStatus).Name, c.Write.(*GroupStatus).Status.Placed)
		case CallForeignStatus:
			word += fmt.Sprintf(" %s=%s", c.Write.(*ForeignStatus).Group.Name, c.Write.(*ForeignStatus).Phase)
		case CallQueueStatus:
			word += fmt.Sprintf(" %s=%d", c.Write.(*QueueStatus).Name, c.Write.(*QueueStatus).Status.Running)
		case CallPodCondition:
			word += " " + c.Write.(*PodCondition).Pod.Name + "=" + c.Write.(*PodCondition).Condition.Message
		case CallEvent:
			word += " " + c.Write.(*Event).Regarding.Name + "=" + c.Write.(*Event).Note
		case CallDeleteGroup:
			word += " " + c.Write.(*GroupDeletion).Name
		default:
			word += " " + c.Pod.Name
		}
		if c.Attempt > 1 {
			word += fmt.Sprintf(" #%d", c.Attempt)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// nameOf returns the name of the object that a write is about.
func nameOf(write Write) string {
	switch write := write.(type) {
	case *GroupStatus:
		return write.Name
	case *ForeignStatus:
		return write.Group.Name
	case *QueueStatus:
		return write.Name
	case *GroupDeletion:
		return write.Name
	case *PodCondition:
		return write.Pod.Name
	case *Event:
		return write.Regarding.Name
	}
	return ""
}

// reply answers the call in flight for the object of that name.
func (p *player) reply(name string, err error) {
	p.t.Helper()
	for i, c := range p.inFlight {
		if c.Pod.Name == name || c.Write != nil && nameOf(c.Write) == name {
			p.inFlight = slices.Delete(p.inFlight, i, i+1)
			p.heard(p.Reply(p.now, Reply{ID: c.ID, Err: err}))
			return
		}
	}
	p.t.Fatalf("nothing in flight for %s", name)
}

func (p *player) replies(err error, names ...string) {
	p.t.Helper()
	for _, name := range names {
		p.reply(name, err)
	}
}

func (p *player) pass(d time.Duration) {
	p.now = p.now.Add(d)
	p.heard(p.Tick(p.now))
}

func (p *player) cancel(name string) { p.heard(p.Cancel(p.now, pod(name).UID)) }

func (p *player) expectCalls(want string) {
	p.t.Helper()
	if got := p.calls(); got != want {
		p.t.Errorf("calls: got %q, want %q", got, want)
	}
}

// expect compares the outcomes since the last comparison.
func (p *player) expect(want ...string) {
	p.t.Helper()
	if !slices.Equal(p.said, want) {
		p.t.Errorf("outcomes:\n got %q\nwant %q", p.said, want)
	}
	p.said = nil
}

// end expects that the machine is idle and empty.
func (p *player) end() {
	p.t.Helper()
	p.expectCalls("")
	p.expect()
	if err := p.atRest(); err != nil {
		p.t.Error(err)
	}
}

func (m *Machine) atRest() error {
	switch {
	case !m.Idle():
		return fmt.Errorf("not idle: %d lines, %d outcomes", len(m.targetQueues), len(m.outcomes))
	case len(m.sent)+len(m.resting.items)+len(m.deadlines.items)+m.others+m.writes+m.preparing+len(m.plans)+len(m.starts) != 0:
		return fmt.Errorf("kept: %d sent, %d resting, %d deadlines, %d others and %d writes in flight, %d plans, %d starts",
			len(m.sent), len(m.resting.items), len(m.deadlines.items), m.others, m.writes, len(m.plans), len(m.starts))
	}
	for kind := range m.queues {
		if q := &m.queues[kind]; q.length+q.turns.Len()+len(q.namespaces) != 0 {
			return fmt.Errorf("kept: %d ready of kind %s, %d turns, %d namespaces", q.length, Kind(kind), q.turns.Len(), len(q.namespaces))
		}
	}
	if at, ok := m.NextWake(); ok {
		return fmt.Errorf("wants to wake at %s", at)
	}
	return nil
}

func TestCallsGoOutByKindThenInOrder(t *testing.T) {
	p := play(t, Options{Workers: 3})
	p.write(event("e", "Scheduled", "x"))
	p.write(condition("c", "wait"))
	p.write(group("g", 1))
	p.submit(evictions("k", "v1", "v2"))
	p.submit(binds("j", "b1", "b2"))
	p.expectCalls("Bind b1, Bind b2, Evict v1")
	p.expectCalls("")
	p.replies(nil, "b2", "b1")
	p.expect("Bound b2", "Bound b1", "Committed j needs=2 bound=2 failed=0 uncertain=0")
	p.expectCalls("Evict v2, GroupStatus g=1")
	p.replies(nil, "v1", "v2", "g")
	p.expect("Evicted v1", "Evicted v2", "VictimsGone k pods=2 members=0 failed=0")
	p.expectCalls("PodCondition c=wait, Event e=x")
	p.replies(nil, "c", "e")
	p.end()
}

func TestImpatientWriteGetsOneSlot(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.write(event("e", "Scheduled", "x"))
	p.pass(10 * time.Millisecond)
	p.write(group("g", 1))
	p.submit(binds("j", "b1", "b2", "b3", "b4", "b5", "b6"))
	p.pass(900 * time.Millisecond)
	p.expectCalls("Bind b1, Bind b2")
	p.pass(100 * time.Millisecond)
	p.replies(nil, "b1", "b2")
	p.expectCalls("Event e=x, Bind b3")
	p.replies(nil, "b3")
	p.expectCalls("Bind b4")
	p.replies(nil, "e")
	p.expectCalls("GroupStatus g=1")
	p.replies(nil, "g", "b4")
	p.expectCalls("Bind b5, Bind b6")
	p.replies(nil, "b5", "b6")
	p.said = nil
	p.end()
}

func TestOneWorkerTakesTurns(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.write(group("g1", 1))
	p.write(group("g2", 1))
	p.submit(binds("j", "b1", "b2"))
	p.pass(time.Second)
	p.expectCalls("GroupStatus g1=1")
	p.reply("g1", nil)
	p.expectCalls("Bind b1")
	p.reply("b1", nil)
	p.expectCalls("GroupStatus g2=1")
	p.reply("g2", nil)
	p.expectCalls("Bind b2")
	p.reply("b2", nil)
	p.said = nil
	p.end()
}

func TestNewerWriteReplacesTheOlder(t *testing.T) {
	p := play(t, Options{})
	p.write(group("g", 1))
	p.write(group("g", 2))
	p.write(event("e", "Waiting", "1"))
	p.write(event("e", "Waiting", "2"))
	p.write(event("e", "Other", "3"))
	p.expectCalls("GroupStatus g=2, Event e=2, Event e=3")
	p.write(group("g", 3))
	p.write(group("g", 4))
	p.expectCalls("") // one is in flight
	p.replies(nil, "e", "e", "g")
	p.expectCalls("GroupStatus g=4")
	p.write(group("g", 5))
	p.reply("g", errServer) // the newer one takes over the attempt and its back-off
	p.expectCalls("")
	p.pass(time.Second)
	p.expectCalls("GroupStatus g=5 #2")
	p.reply("g", errServer)
	p.write(group("g", 6)) // the newer one replaces one that backs off
	p.expectCalls("")
	p.pass(time.Second)
	p.expectCalls("GroupStatus g=6 #3")
	p.reply("g", nil)
	p.end()
}

func TestDecisionOverridesCondition(t *testing.T) {
	p := play(t, Options{})
	p.write(condition("a", "wait")) // not sent: dropped
	p.write(condition("b", "wait")) // in flight: goes first
	p.write(condition("c", "wait")) // in flight and fails: not tried again
	p.inFlight = append(p.inFlight, p.Calls(p.now)[1:]...)
	p.submit(binds("j", "b", "c"))
	p.expectCalls("")
	p.replies(nil, "b")
	p.replies(errServer, "c")
	p.expectCalls("Bind b, Bind c")
	p.write(condition("b", "stale")) // says that a pod waits that is being bound
	p.replies(nil, "b", "c")
	p.said = nil
	if len(p.targetQueues) != 1 { // the one in the player's hands
		t.Errorf("lines: got %d, want 1", len(p.targetQueues))
	}
	p.write(condition("d", "wait"))
	p.submit(binds("j", "d"))
	p.expectCalls("Bind d")
}

func TestBackoffDoublesUpToItsMaximum(t *testing.T) {
	p := play(t, Options{Backoff: 100 * time.Millisecond, MaxBackoff: 300 * time.Millisecond})
	p.submit(binds("j", "a"))
	p.expectCalls("Bind a")
	for attempt, pause := range []time.Duration{100, 200, 300, 300} {
		p.reply("a", errServer)
		at, ok := p.NextWake()
		got := at.Sub(p.now)
		if pause *= time.Millisecond; !ok || got > pause || got < pause*3/4 {
			t.Fatalf("attempt %d: rests %s, want %s less up to a quarter", attempt+1, got, pause)
		}
		p.pass(got - 1)
		p.expectCalls("")
		p.pass(1)
		p.expectCalls(fmt.Sprintf("Bind a #%d", attempt+2))
	}
	p.reply("a", nil)
	p.expect("Bound a", "Committed j needs=1 bound=1 failed=0 uncertain=0")
	p.end()
}

func TestRetryAfterIsHonoured(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a", "b"))
	p.calls()
	p.reply("a", apierrors.NewTooManyRequests("busy", 7))
	p.reply("b", nil)
	p.pass(6999 * time.Millisecond)
	p.expectCalls("")
	p.pass(time.Millisecond)
	p.expectCalls("Bind a #2")
	p.reply("a", nil)
	p.expect("Bound b", "Bound a", "Committed j needs=2 bound=2 failed=0 uncertain=0")
	p.end()
}

func TestBusyServerPausesEverything(t *testing.T) {
	p := play(t, Options{Workers: 2, Backoff: 100 * time.Millisecond})
	p.submit(binds("j", "a", "b", "c"))
	p.calls()
	p.replies(errBusy, "a", "b") // both were sent before the pause: it counts once
	p.expectCalls("")
	if at, ok := p.NextWake(); !ok || at.Sub(p.now) > 100*time.Millisecond || !at.After(p.now) {
		t.Errorf("wakes at %s, %t", at.Sub(p.now), ok)
	}
	p.pass(100 * time.Millisecond)
	p.expectCalls("Bind a #2, Bind b #2")
	p.replies(errBusy, "a") // again: twice as long
	p.reply("b", nil)
	if at, ok := p.NextWake(); !ok || at.Sub(p.now) <= 100*time.Millisecond {
		t.Errorf("second pause: wakes after %s, %t", at.Sub(p.now), ok)
	}
	p.pass(200 * time.Millisecond)
	p.expectCalls("Bind a #3, Bind c")
	p.replies(nil, "a")
	p.submit(binds("k", "d"))
	p.expectCalls("Bind d")
	p.replies(errBusy, "c") // the server had recovered: a short pause
	p.pass(100 * time.Millisecond)
	p.expectCalls("Bind c #2")
	p.replies(nil, "c", "d")
	p.said = nil
	p.end()
}

// TestBindAnswers: the result of the last answer, alone and after an attempt whose reply was lost.
func TestBindAnswers(t *testing.T) {
	tests := map[string]struct {
		err                  error
		fresh, afterLostAway string
	}{
		"confirmed":     {nil, "Bound a", "Bound a"},
		"assigned":      {errTaken, "BindFailed a refused", "BindUncertain a"},
		"being deleted": {errLeave, "BindFailed a refused gone", "BindUncertain a gone"},
		"other pod":     {errUID, "BindFailed a gone", "BindFailed a gone"},
		"not found":     {errGone, "BindFailed a gone", "BindFailed a gone"},
		"forbidden":     {errDenied, "BindFailed a refused", "BindUncertain a"},
		"bad request":   {apierrors.NewBadRequest("x"), "BindFailed a refused", "BindUncertain a"},
		"wrapped":       {fmt.Errorf("bind: %w", errUID), "BindFailed a gone", "BindFailed a gone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for _, earlier := range [][]error{{}, {errBusy}, {ErrNotLeading}, {errRotated}, {errLost}, {errServer, errBusy}, {errBusy, errLost}} {
				p := play(t, Options{})
				p.submit(binds("j", "a"))
				lost := false
				for _, err := range earlier {
					p.calls()
					p.reply("a", err)
					p.expect()
					p.pass(5 * time.Second)
					lost = lost || errors.Is(err, errLost) || errors.Is(err, errServer)
				}
				p.calls()
				p.reply("a", test.err)
				want := test.fresh
				if lost {
					want = test.afterLostAway
				}
				if p.calls() == "Read a" { // and if the pod cannot be read, the result is unknown
					p.reply("a", errDenied)
				}
				if len(p.said) != 2 || p.said[0] != want {
					t.Errorf("after %v: got %q, want %q", earlier, p.said, want)
				}
				p.said = nil
				p.end()
			}
		})
	}
}

// TestBindOfAnOutdatedPodSaysSo: the outcome has the decision's version, unless the bind may have caused the newer one.
func TestBindOfAnOutdatedPodSaysSo(t *testing.T) {
	stale := apierrors.NewConflict(bindings, "a",
		errors.New("Precondition failed: ResourceVersion in precondition: 7, ResourceVersion in object meta: 8"))
	for _, lost := range []bool{false, true} {
		m, now := New(Options{}), time.Unix(1_700_000_000, 0)
		decision := binds("j", "a")
		decision.Binds[0].Isolated = &model.Isolation{ResourceVersion: "7"}
		m.Submit(now, decision)
		call := m.Calls(now)[0]
		if call.Isolated != decision.Binds[0].Isolated {
			t.Fatalf("call %+v", call)
		}
		want := Outcome{Kind: BindFailed, StaleVersion: "7"}
		if lost {
			m.Reply(now, Reply{ID: call.ID, Err: errLost})
			now = now.Add(5 * time.Second)
			call, want = m.Calls(now)[0], Outcome{Kind: Bound}
		}
		outcomes := m.Reply(now, Reply{ID: call.ID, Err: stale})
		if lost {
			outcomes = m.Reply(now, Reply{ID: m.Calls(now)[0].ID}) // the pod is read on its node
		}
		got := outcomes[0]
		if got.Kind != want.Kind || got.StaleVersion != want.StaleVersion {
			t.Errorf("lost before: %v: %s %q, want %s %q", lost, got.Kind, got.StaleVersion, want.Kind, want.StaleVersion)
		}
	}
}

func TestBindDeadline(t *testing.T) {
	p := play(t, Options{Workers: 4})
	p.write(condition("waits", "x"))
	p.calls()
	p.pass(time.Hour) // the deadline counts from the first bind, not from before
	p.submit(binds("j", "rejected", "lost", "late", "waits", "unsent"))
	p.expectCalls("Bind rejected, Bind lost, Bind late")
	p.replies(errBusy, "rejected")
	p.replies(errLost, "lost")
	p.pass(29 * time.Second)
	p.calls()
	p.replies(apierrors.NewTooManyRequests("busy", 10), "rejected")
	p.replies(apierrors.NewTooManyRequests("busy", 10), "lost")
	p.expect()
	if p.now = p.now.Add(time.Second); p.calls() != "Read lost" {
		t.Error("sent after the deadline")
	}
	if at, ok := p.NextWake(); !ok || at.After(p.now) {
		t.Errorf("wakes at %s, %t, want immediately: outcomes are waiting", at, ok)
	}
	p.pass(0)
	p.expect("BindFailed rejected", "BindFailed waits", "BindFailed unsent")
	p.reply("late", errServer) // no further attempt
	p.reply("waits", nil)
	p.expectCalls("Read late")
	p.replies(nil, "lost", "late")
	p.expect("Bound lost", "Bound late", "Committed j needs=5 bound=2 failed=3 uncertain=0")
	p.end()
}

func TestCancel(t *testing.T) {
	p := play(t, Options{Workers: 2})
	p.submit(binds("j", "flying", "resting", "ready"))
	p.submit(evictions("j", "victim"))
	p.write(condition("other", "x"))
	p.calls()
	p.reply("resting", errLost)
	p.calls()
	p.cancel("resting")
	p.cancel("flying")
	p.cancel("victim")
	p.cancel("other")
	p.cancel("unknown")
	p.expect("BindFailed resting gone", "Evicted victim gone", "VictimsGone j pods=0 members=0 failed=0")
	p.reply("flying", errServer)
	p.reply("ready", nil)
	p.expect("BindFailed flying gone", "Bound ready", "Committed j needs=3 bound=1 failed=2 uncertain=0")
	p.end()
}

func TestSecondBindOfAPodIsNotSentAfterTheFirstSucceeded(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a"))
	p.submit(binds("k", "a"))
	p.expectCalls("Bind a")
	p.reply("a", nil)
	p.expect("Bound a", "Committed j needs=1 bound=1 failed=0 uncertain=0",
		"BindFailed a", "Committed k needs=1 bound=0 failed=1 uncertain=0")
	p.end()
}

func TestWritesThatFail(t *testing.T) {
	p := play(t, Options{EventAttempts: 2, MaxEvents: 2})
	p.write(group("g", 1))
	p.write(condition("c", "x"))
	for _, name := range []string{"e1", "e2", "e3"} {
		p.write(event(name, "Scheduled", "x"))
	}
	p.expectCalls("GroupStatus g=1, PodCondition c=x, Event e1=x, Event e2=x")
	p.reply("g", errDenied)
	p.reply("c", errGone)
	p.expect("WriteFailed ", "WriteFailed c gone")
	p.reply("e1", errServer)
	p.reply("e2", errServer)
	p.pass(time.Second)
	p.expectCalls("Event e2=x #2, Event e1=x #2")
	p.reply("e1", errServer)
	p.reply("e2", apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "e2"))
	if got := p.TakeCounts().DroppedEvents; got != 2 {
		t.Errorf("dropped events: got %d, want 2", got)
	}
	p.end()
}

func TestRepliesToNothing(t *testing.T) {
	p := play(t, Options{})
	p.submit(binds("j", "a"))
	call := p.Calls(p.now)[0]
	p.heard(p.Reply(p.now, Reply{ID: call.ID}))
	p.heard(p.Reply(p.now, Reply{ID: call.ID, Err: errTaken}))
	p.heard(p.Reply(p.now, Reply{ID: 99}))
	p.expect("Bound a", "Committed j needs=1 bound=1 failed=0 uncertain=0")
	p.end()
}
