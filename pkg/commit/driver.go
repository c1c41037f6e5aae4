package commit

import (
	"context"
	"sync"
	"time"
)

// API carries out calls. The driver's workers call it, many at once. Client is the one of production; a simulator
// brings its own.
type API interface {
	// Do sends the call, once, and returns nil when the server confirmed it; see Reply.Err for what errors mean. It
	// returns soon after ctx is done.
	Do(ctx context.Context, call Call) error
}

// DriverOptions are the numbers of a Driver. A zero field has the default named with it.
type DriverOptions struct {
	// Workers is how many requests are under way at most; 64.
	Workers int
	// Backlog is how many calls beyond these Send takes without blocking, so that workers have something to do while the
	// owner is busy deciding; 1,024. Options.Workers of the machine is at most the sum of both.
	Backlog int
	// Timeout bounds one request, its answer included; 10 s.
	Timeout time.Duration
	// MayWrite is asked right before each request leaves, on the worker's goroutine; false makes the reply
	// ErrNotLeading. nil means always.
	MayWrite func() bool
}

// Driver is a fixed pool of workers that carry calls to the API and bring the replies back. It decides nothing.
type Driver struct {
	api     API
	options DriverOptions
	deliver func(Reply)
	calls   chan Call
}

// NewDriver returns a driver that is not running yet. deliver is called on the workers' goroutines, many at once, exactly
// once per call sent, and must return at once.
func NewDriver(api API, options DriverOptions, deliver func(Reply)) *Driver {
	orDefault(&options.Workers, 64)
	orDefault(&options.Backlog, 1024)
	orDefault(&options.Timeout, 10*time.Second)
	if options.MayWrite == nil {
		options.MayWrite = func() bool { return true }
	}
	return &Driver{
		api: api, options: options, deliver: deliver,
		calls: make(chan Call, options.Workers+options.Backlog),
	}
}

// Send hands a call to the workers. It returns at once as long as no more calls are without reply than Workers and
// Backlog together; it is safe for concurrent use, also before Run and after it.
func (d *Driver) Send(call Call) { d.calls <- call }

// Run works until ctx is done, and returns when every request under way has its reply: from then on nothing more is
// written. Calls that no worker has begun by then stay without reply.
func (d *Driver) Run(ctx context.Context) {
	var workers sync.WaitGroup
	for range d.options.Workers {
		workers.Go(func() { d.work(ctx) })
	}
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

// do lets a request that has begun run to its end when ctx is done: broken off, nobody would know whether it took effect.
func (d *Driver) do(ctx context.Context, call Call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.options.Timeout)
	defer cancel()
	if !d.options.MayWrite() {
		return ErrNotLeading
	}
	return d.api.Do(ctx, call)
}
