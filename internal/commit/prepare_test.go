package commit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// prepared is a decision that needs all of its binds; those with a star have something reserved.
func prepared(job string, pods ...string) model.Decision {
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: job}, MinBinds: len(pods)}
	for _, name := range pods {
		holds := name[0] == '*'
		if holds {
			name = name[1:]
		}
		decision.Binds = append(decision.Binds, model.Bind{Pod: pod(name), Node: "node-" + name, NeedsPreBind: holds})
	}
	return decision
}

var errNotPrepared = errors.New("binding volumes: no space")

func TestAllIsPreparedBeforeTheFirstBind(t *testing.T) {
	p := play(t, Options{Workers: 1})
	p.submit(prepared("j", "*a", "b", "*c"))
	p.expectCalls("Prepare a, Prepare c") // although there is one worker
	p.submit(binds("k", "x"))
	p.expectCalls("Bind x") // does not wait for the preparation
	p.reply("c", nil)
	p.expectCalls("")
	p.replies(nil, "x")
	p.expect("Bound x", "Committed k needs=1 bound=1 failed=0 uncertain=0")
	p.expectCalls("")
	p.pass(9 * time.Minute) // the bind deadline does not count yet
	p.reply("a", nil)
	p.expectCalls("Bind a")
	p.reply("a", nil)
	p.expectCalls("Bind b")
	p.reply("b", nil)
	p.expectCalls("Bind c")
	p.reply("c", errServer)
	p.pass(time.Second)
	p.expectCalls("Bind c #2")
	p.reply("c", nil)
	p.expect("Bound a", "Bound b", "Bound c", "Committed j needs=3 bound=3 failed=0 uncertain=0")
	p.end()
}

// TestDeadlineOfBindsCountsFromTheFirst, however long they were prepared.
func TestDeadlineOfBindsCountsFromTheFirst(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*a"))
	p.calls()
	p.pass(9 * time.Minute)
	p.reply("a", nil)
	p.expectCalls("Bind a")
	p.pass(29 * time.Second)
	p.reply("a", errBusy)
	p.expect()
	p.pass(time.Second)
	p.expectCalls("Release a")
	p.reply("a", nil)
	p.expect("BindFailed a", "Committed j needs=1 bound=0 failed=1 uncertain=0")
	p.pass(time.Hour)
	p.end()
}

func TestOneThatIsNotPreparedFailsAll(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*done", "*flies", "plain", "*fails"))
	p.calls()
	p.reply("done", nil)
	p.reply("fails", errNotPrepared)
	p.expect("Obsolete flies", "BindFailed plain")
	p.expectCalls("Release fails, Release done")
	p.reply("done", nil)
	p.expect("BindFailed done")
	p.reply("flies", nil) // it was faster
	p.expectCalls("Release flies")
	p.replies(nil, "flies", "fails")
	p.expect("BindFailed flies", "BindFailed fails refused", "Committed j needs=4 bound=0 failed=4 uncertain=0")
	p.end()
}

func TestWhyNothingIsBound(t *testing.T) {
	m := New(Options{})
	m.Submit(start, prepared("j", "*a", "b"))
	call := m.Calls(start)[0]
	outcomes := m.Reply(start, Reply{ID: call.ID, Err: errNotPrepared})
	if want := "pod a could not be prepared: " + errNotPrepared.Error(); outcomes[0].Message != want {
		t.Errorf("the sibling's reason: got %q, want %q", outcomes[0].Message, want)
	}
	call = m.Calls(start)[0]
	outcomes = m.Reply(start, Reply{ID: call.ID, Err: errServer})
	want := errNotPrepared.Error() + "; what was set aside could not be given back: " + errServer.Error()
	if outcomes[0].Message != want || outcomes[0].Node != "node-a" {
		t.Errorf("its own outcome: got %+v, want %q", outcomes[0], want)
	}
}

func TestSurplusFailsAlone(t *testing.T) {
	p := play(t, Options{})
	decision := prepared("j", "*a", "*b", "c")
	decision.MinBinds = 0
	p.submit(decision)
	p.calls()
	p.reply("a", errNotPrepared)
	p.expectCalls("Release a")
	p.reply("b", nil)
	p.expectCalls("Bind b, Bind c")
	p.replies(nil, "a", "b", "c")
	p.expect("BindFailed a refused", "Bound b", "Bound c", "Committed j needs=0 bound=2 failed=1 uncertain=0")

	p.submit(decision)
	p.calls()
	p.reply("a", nil)
	p.cancel("a") // the others are still waited for
	p.expectCalls("Release a")
	p.reply("b", nil)
	p.expectCalls("Bind b, Bind c")
	p.replies(nil, "a", "b", "c")
	p.expect("BindFailed a gone", "Bound b", "Bound c", "Committed j needs=0 bound=2 failed=1 uncertain=0")
	p.end()
}

func TestPreparingHasATimeOut(t *testing.T) {
	p := play(t, Options{Preparing: 1, PrepareTimeout: time.Minute})
	p.submit(prepared("j", "*a", "*b"))
	p.expectCalls("Prepare a")
	p.pass(time.Minute)
	p.expect("Obsolete a")
	p.expectCalls("") // the one slot is taken
	p.reply("a", context.Canceled)
	p.expectCalls("Release b")
	p.reply("b", nil)
	p.expectCalls("Release a")
	p.reply("a", nil)
	p.expect("BindFailed b", "BindFailed a", "Committed j needs=2 bound=0 failed=2 uncertain=0")
	p.end()
}

func TestPodDeletedWhileItIsPrepared(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*a", "*b", "*c"))
	p.calls()
	p.reply("b", nil)
	p.cancel("a") // in flight
	p.expect("Obsolete a", "Obsolete c")
	p.expectCalls("Release b")
	p.replies(nil, "a", "b", "c")
	p.expectCalls("Release a, Release c")
	p.cancel("c") // too late to matter
	p.replies(nil, "a", "c")
	p.expect("BindFailed b", "BindFailed a gone", "BindFailed c gone", "Committed j needs=3 bound=0 failed=3 uncertain=0")

	p.submit(prepared("k", "*a", "*b"))
	p.calls()
	p.reply("a", nil)
	p.cancel("a") // waits for b
	p.expect("Obsolete b")
	p.reply("b", errNotPrepared)
	p.calls()
	p.replies(nil, "a", "b")
	p.expect("BindFailed a gone", "BindFailed b", "Committed k needs=2 bound=0 failed=2 uncertain=0")
	p.end()
}

func TestBindThatFailsGivesBack(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*a", "*b"))
	p.calls()
	p.replies(nil, "a", "b")
	p.calls()
	p.reply("a", errTaken)
	p.expect()
	p.expectCalls("Release a")
	p.pass(time.Minute) // past the deadline: a release goes on
	p.replies(nil, "a", "b")
	p.expect("BindFailed a refused", "Bound b", "Committed j needs=2 bound=1 failed=1 uncertain=0")
	p.end()
}

func TestUncertainBindKeepsWhatIsSetAside(t *testing.T) {
	p := play(t, Options{})
	p.submit(prepared("j", "*a"))
	p.calls()
	p.reply("a", nil)
	p.calls()
	p.reply("a", errLost)
	p.pass(time.Hour)
	read := p.Calls(p.now)
	if len(read) != 1 || read[0].Kind != CallGetPod {
		t.Fatalf("calls %+v, want a look at the pod", read)
	}
	outcomes := p.Reply(p.now, Reply{ID: read[0].ID, Err: errDenied})
	if len(outcomes) == 0 || outcomes[0].Kind != BindUncertain || !outcomes[0].Prepared {
		t.Fatalf("got %+v, want an uncertain bind with something set aside", outcomes)
	}
	p.expectCalls("")
	p.ReleasePrepared(p.now, pod("a"))
	p.submit(prepared("k", "*a")) // not before that is done
	p.expectCalls("Release a")
	p.reply("a", errServer)
	p.expect("Released a")
	p.expectCalls("Prepare a")
	p.cancel("a")
	p.reply("a", nil)
	p.calls()
	p.reply("a", nil)
	p.said = nil
	p.end()
}

func TestBusyServerPausesPreparingToo(t *testing.T) {
	p := play(t, Options{Workers: 1, Backoff: 100 * time.Millisecond})
	p.submit(binds("j", "a"))
	p.calls()
	p.submit(prepared("k", "*b"))
	p.reply("a", errBusy)
	p.expectCalls("")
	if at, ok := p.NextWake(); !ok || at.After(p.now.Add(100*time.Millisecond)) {
		t.Errorf("wakes at %s, %t", at, ok)
	}
	p.pass(100 * time.Millisecond)
	p.expectCalls("Prepare b, Bind a #2")
	p.replies(nil, "a", "b")
	p.calls()
	p.reply("b", nil)
	p.said = nil
	p.end()
}

// preparer prepares when it is allowed to.
type preparer struct {
	entered chan types.UID
	leave   chan error
}

func (p preparer) Prepare(ctx context.Context, pod types.UID) error {
	p.entered <- pod
	select {
	case err := <-p.leave:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p preparer) Release(context.Context, types.UID) error { return errNotPrepared }

func TestPreparingTakesNoWorker(t *testing.T) {
	defer goleak.VerifyNone(t)
	api := newStage()
	prepares := preparer{entered: make(chan types.UID, 10), leave: make(chan error)}
	replies := make(chan Reply, 10)
	driver := NewDriver(api, DriverOptions{Workers: 1, Preparer: prepares}, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	for id := range CallID(3) {
		driver.Send(Call{ID: id + 1, Kind: CallPrepare, Pod: pod("a")})
		<-prepares.entered
	}
	driver.Send(Call{ID: 4, Kind: CallBind})
	<-api.entered
	api.leave <- nil
	if r := <-replies; r.ID != 4 {
		t.Errorf("reply: got %+v, want that of the bind", r)
	}
	driver.Send(Call{ID: 5, Kind: CallRelease, Pod: pod("b")})
	if r := <-replies; r.ID != 5 || !errors.Is(r.Err, errNotPrepared) {
		t.Errorf("reply: got %+v, want that of the release", r)
	}
	prepares.leave <- nil
	if r := <-replies; r.Err != nil {
		t.Errorf("reply: got %v", r.Err)
	}
	cancel() // preparations are cancelled
	for range 2 {
		if r := <-replies; !errors.Is(r.Err, context.Canceled) {
			t.Errorf("reply: got %v, want that it was broken off", r.Err)
		}
	}
	running.Wait()
}

func TestPreparingIsBoundedInTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	replies := make(chan Reply, 2)
	options := DriverOptions{
		Timeout: time.Hour, PrepareTimeout: time.Millisecond, Preparer: preparer{entered: make(chan types.UID, 1)},
	}
	driver := NewDriver(newStage(), options, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	driver.Send(Call{ID: 1, Kind: CallPrepare})
	if r := <-replies; !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("reply: got %v, want a deadline exceeded", r.Err)
	}
	cancel()
	running.Wait()
}

// TestReleasedAlsoWithoutTheLease: what is reserved in the process is released while it may not write. Else it would hold devices
// that no pod has, for as long as it runs.
func TestReleasedAlsoWithoutTheLease(t *testing.T) {
	defer goleak.VerifyNone(t)
	replies := make(chan Reply, 2)
	options := DriverOptions{Preparer: preparer{}, MayWrite: func() bool { return false }}
	driver := NewDriver(newStage(), options, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	for kind, want := range map[Kind]error{CallPrepare: ErrNotLeading, CallRelease: errNotPrepared} {
		driver.Send(Call{ID: 1, Kind: kind})
		if r := <-replies; !errors.Is(r.Err, want) {
			t.Errorf("%s: got %v, want %v", kind, r.Err, want)
		}
	}
	cancel()
	running.Wait()
}

// TestAGangThatCannotBeCompletedIsNotBegun: while its binds wait for a worker, too many of its pods are deleted; the others
// are not bound.
func TestAGangThatCannotBeCompletedIsNotBegun(t *testing.T) {
	m := New(Options{Workers: 1})
	m.Write(start, group("busy", 1))
	m.Calls(start) // takes the only worker
	decision := model.Decision{Job: model.JobKey{Namespace: "ns", Name: "g"}, MinBinds: 2}
	for _, name := range []string{"a", "b", "c"} {
		decision.Binds = append(decision.Binds, model.Bind{Pod: pod(name), Node: "n"})
	}
	m.Submit(start, decision)
	if outcomes := m.Cancel(start, "uid-a"); len(outcomes) != 1 || outcomes[0].Kind != BindFailed {
		t.Fatalf("one too many: %+v, want that the other two go on", outcomes)
	}
	outcomes := m.Cancel(start, "uid-b")
	if len(outcomes) != 3 || outcomes[1].Pod.Name != "c" || outcomes[1].PodGone || outcomes[1].Message != "pod b could not be bound: the pod was deleted" {
		t.Errorf("two too few: %+v, want that the last one fails with it", outcomes)
	}
	if last := outcomes[len(outcomes)-1]; last.Kind != Committed || last.Failed != 3 {
		t.Errorf("the end of the decision: %+v", last)
	}
}
