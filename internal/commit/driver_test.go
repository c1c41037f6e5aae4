package commit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"
)

// stageAPI is an API whose calls block until they are released.
type stageAPI struct {
	entered chan Call
	leave   chan error
}

func (s stageAPI) Do(ctx context.Context, call Call) error {
	s.entered <- call
	select {
	case err := <-s.leave:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func newStage() stageAPI { return stageAPI{entered: make(chan Call, 100), leave: make(chan error)} }

func TestDriverBoundsRequestsUnderWay(t *testing.T) {
	defer goleak.VerifyNone(t)
	api := newStage()
	replies := make(chan Reply, 10)
	driver := NewDriver(api, DriverOptions{Workers: 2}, func(r Reply) { replies <- r })
	for id := range CallID(5) {
		driver.Send(Call{ID: id + 1, Kind: CallBind}) // does not block, though no worker runs yet
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	seen := map[CallID]bool{}
	for range 5 {
		<-api.entered
		if len(api.entered) > 1 {
			t.Error("more than two requests under way")
		}
		api.leave <- nil
		seen[(<-replies).ID] = true
	}
	if len(seen) != 5 {
		t.Errorf("replies: got %v, want one for each of 5 calls", seen)
	}
	cancel()
	running.Wait()
}

func TestDriverEndsWithoutBreakingRequestsOff(t *testing.T) {
	defer goleak.VerifyNone(t)
	api := newStage()
	replies := make(chan Reply, 10)
	driver := NewDriver(api, DriverOptions{Workers: 1}, func(r Reply) { replies <- r })
	driver.Send(Call{ID: 1, Kind: CallBind})
	driver.Send(Call{ID: 2, Kind: CallBind})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { driver.Run(ctx); close(ended) }()
	<-api.entered
	cancel()
	select {
	case <-ended:
		t.Error("ended with a request under way")
	default:
	}
	api.leave <- nil
	<-ended
	if r := <-replies; r.ID != 1 || r.Err != nil {
		t.Errorf("reply: got %+v, want that of a request that ran to its end", r)
	}
	if len(api.entered) != 0 {
		t.Error("a request was begun after the end")
	}
}

func TestDriverBoundsEachRequestInTime(t *testing.T) {
	defer goleak.VerifyNone(t)
	replies := make(chan Reply, 1)
	driver := NewDriver(newStage(), DriverOptions{Workers: 1, Timeout: time.Millisecond}, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { driver.Run(ctx); close(ended) }()
	driver.Send(Call{ID: 1, Kind: CallBind})
	if r := <-replies; !errors.Is(r.Err, context.DeadlineExceeded) {
		t.Errorf("reply: got %v, want a deadline exceeded", r.Err)
	}
	cancel()
	<-ended
}

func TestDriverAsksBeforeEachRequest(t *testing.T) {
	defer goleak.VerifyNone(t)
	var leading atomic.Bool
	leading.Store(true)
	api := newStage()
	replies := make(chan Reply, 1)
	driver := NewDriver(api, DriverOptions{Workers: 1, MayWrite: leading.Load}, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { driver.Run(ctx); close(ended) }()
	driver.Send(Call{ID: 1, Kind: CallBind})
	driver.Send(Call{ID: 2, Kind: CallBind})
	<-api.entered
	leading.Store(false) // while the second is queued
	api.leave <- nil
	if r := <-replies; r.Err != nil {
		t.Errorf("first reply: %v", r.Err)
	}
	if r := <-replies; !errors.Is(r.Err, ErrNotLeading) {
		t.Errorf("second reply: got %v, want ErrNotLeading", r.Err)
	}
	if len(api.entered) != 0 {
		t.Error("the second request was sent")
	}
	cancel()
	<-ended
}

// clumsy panics on every call.
type clumsy struct{}

func (clumsy) Do(context.Context, Call) error { panic("dropped") }

func (clumsy) Prepare(context.Context, types.UID) error { panic("dropped") }

func (clumsy) Release(context.Context, types.UID) error { panic("dropped") }

func TestDriverAnswersForWhoPanics(t *testing.T) {
	defer goleak.VerifyNone(t)
	replies := make(chan Reply, 10)
	driver := NewDriver(clumsy{}, DriverOptions{Workers: 1, Preparer: clumsy{}}, func(r Reply) { replies <- r })
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { driver.Run(ctx) })
	for _, kind := range []Kind{CallBind, CallPrepare, CallRelease, CallEvict} {
		driver.Send(Call{ID: 1, Kind: kind})
		reply := <-replies
		if reply.Err == nil || reply.Err.Error() != "panic: dropped" {
			t.Errorf("%v: %v", kind, reply.Err)
		}
		if kind == CallBind && classify(kind, reply.Err).class != unknown {
			t.Error("a bind whose caller panicked counts as known")
		}
	}
	cancel()
	running.Wait()
}
