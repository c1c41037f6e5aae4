package commit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// API carries out calls. The driver's workers call it concurrently. Client is the production implementation; a simulator has
// its own.
type API interface {
	// Do sends the call, once, and returns nil when the server confirmed it; see Reply.Err for what errors mean. It
	// returns soon after ctx is done.
	Do(ctx context.Context, call Call) error
}

// Preparer writes what was reserved for pods to the API server, and releases it. The driver calls it on goroutines of their
// own, concurrently, never two for one pod. Each call may take many requests and long waits.
type Preparer interface {
	// Prepare returns when everything reserved for the pod is allocated to it and ready, so that it may be bound. When ctx is
	// done it returns soon, with an error. After an error Release follows.
	Prepare(ctx context.Context, pod types.UID) error
	// Release releases what is reserved for a pod that will not be bound; there may be nothing. An error says that a write to
	// the API server failed, or was refused because the Lease is not held: Release is called then, too.
	Release(ctx context.Context, pod types.UID) error
}

// DriverOptions are the numbers of a Driver. A zero field has the default named with it.
type DriverOptions struct {
	// Workers is how many requests are in flight at most; 64.
	Workers int
	// Backlog is how many calls beyond these Send takes without blocking, so that workers have something to do while the
	// owner is busy deciding; 1,024. Options.Workers of the machine is at most the sum of both.
	Backlog int
	// Timeout bounds one request, its answer included; 10 s. PrepareTimeout bounds one Prepare, 10 min; Release has a minute.
	Timeout, PrepareTimeout time.Duration
	// Preparer carries out CallPrepare and CallRelease; nil when there are none. Send takes as many of them without blocking as the
	// machine sends by default, and all of them run concurrently.
	Preparer Preparer
	// MayWrite is called immediately before each request is sent, on the worker's goroutine; false makes the reply
	// ErrNotLeading. nil means always.
	MayWrite func() bool
}

// releaseTimeout bounds one Release.
const releaseTimeout = time.Minute

// Driver is a fixed pool of workers that carry calls to the API and return the replies, and beside it a goroutine for each
// call to the Preparer, which mostly waits. It decides nothing.
type Driver struct {
	api      API
	options  DriverOptions
	deliver  func(Reply)
	calls    chan Call
	prepares chan Call
}

// NewDriver returns a driver that is not running yet. deliver is called on the workers' goroutines, concurrently, exactly
// once per call sent, and must not block.
func NewDriver(api API, options DriverOptions, deliver func(Reply)) *Driver {
	orDefault(&options.Workers, 64)
	orDefault(&options.Backlog, 1024)
	orDefault(&options.Timeout, 10*time.Second)
	orDefault(&options.PrepareTimeout, 10*time.Minute)
	if options.MayWrite == nil {
		options.MayWrite = func() bool { return true }
	}
	return &Driver{
		api: api, options: options, deliver: deliver,
		calls:    make(chan Call, options.Workers+options.Backlog),
		prepares: make(chan Call, defaultPreparing),
	}
}

// Send hands a call to the workers. It does not block as long as no more calls are without reply than Workers and Backlog
// together, or of those for the Preparer than defaultPreparing; it is safe for concurrent use, also before Run and after it.
func (d *Driver) Send(call Call) {
	if call.Kind.prepares() {
		d.prepares <- call
		return
	}
	d.calls <- call
}

// Run works until ctx is done, and returns when every request in flight has its reply: from then on nothing more is written.
// Calls that no worker has begun by then stay without reply. Preparations are cancelled: the next leader continues from their
// state.
func (d *Driver) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range d.options.Workers {
		workers.Go(func() { d.work(ctx) })
	}
	workers.Go(func() {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case call := <-d.prepares:
				workers.Go(func() { d.deliver(Reply{ID: call.ID, Err: d.prepare(ctx, call)}) })
			}
		}
	})
	workers.Wait()
}

func (d *Driver) work(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case call := <-d.calls:
			d.deliver(Reply{ID: call.ID, Err: d.do(ctx, call)})
		}
	}
}

// do lets a started request finish when ctx is done: a cancelled one would leave open whether it took effect.
func (d *Driver) do(ctx context.Context, call Call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.options.Timeout)
	defer cancel()
	if !d.options.MayWrite() {
		return ErrNotLeading
	}
	return answered(func() error { return d.api.Do(ctx, call) })
}

// answered turns a panic of an API or a Preparer into an error: as with a lost reply, the effect is unknown, and only the job
// of the call is affected.
func answered(ask func() error) (err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("panic: %v", what)
		}
	}()
	return ask()
}

func (d *Driver) prepare(ctx context.Context, call Call) error {
	switch {
	case d.options.Preparer == nil:
		return errors.New("there is no preparer for it")
	case call.Kind == CallRelease: // also without the Lease: what is reserved in this process would stay so
		ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
		defer cancel()
		return answered(func() error { return d.options.Preparer.Release(ctx, call.Pod.UID) })
	case !d.options.MayWrite():
		return ErrNotLeading
	}
	ctx, cancel := context.WithTimeout(ctx, d.options.PrepareTimeout)
	defer cancel()
	return answered(func() error { return d.options.Preparer.Prepare(ctx, call.Pod.UID) })
}
