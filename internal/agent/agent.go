package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/agent/hooks"
	"github.com/tutti-sched/tutti/internal/agent/publish"
	"github.com/tutti-sched/tutti/pkg/isolated"
)

const (
	// requestTimeout bounds each request to the API server, so that one without an answer does not delay the others.
	requestTimeout = 5 * time.Second
	// connectTimeout bounds connecting to the runtime.
	connectTimeout = 10 * time.Second
	// stuckAfter is how long a task may take until the agent counts as hung; each takes less, with all its requests timing out. The
	// runtime starts no container of the node while the agent hangs.
	stuckAfter = 30 * time.Second
)

// Reasons of events about the node.
const (
	// Problem is the event when the node's isolated CPUs are not offered.
	Problem = "IsolatedCPUsProblem"
	// Unreachable is the event when the container runtime cannot be connected to.
	Unreachable = "IsolatedCPUsUnenforced"
)

// Options are what New needs.
type Options struct {
	Sources Sources
	// Mode is the operator's setting for the node's allocatable CPU; empty to find out.
	Mode isolated.Mode
	// Socket is the path of the runtime's NRI socket.
	Socket    string
	Publisher *publish.Publisher
	// Clock is the time source.
	Clock clock.WithTicker
}

// Agent drives a State. Make it with New.
type Agent struct {
	options Options
	hooks   *hooks.Plugin
	reports chan publish.PodEvent
	// warned are the warnings that were logged last.
	warned []string

	mu   sync.Mutex
	life *State
	// link is the connection to the runtime; nil without one. only Run's goroutine sets it.
	link *hooks.Link
	// busy is when the present task began; zero while idle.
	busy time.Time
}

// New returns an agent that has not started. It sets where the hooks' reports go.
func New(options Options, hooked hooks.Options) *Agent {
	a := &Agent{options: options, reports: make(chan publish.PodEvent, 256), life: NewLife(options.Mode)}
	hooked.Report = a.report
	a.hooks = hooks.New(hooked)
	return a
}

// report queues a report from a handler. When the queue is full it is dropped: a handler must not wait, and the metric counts
// it.
func (a *Agent) report(report publish.PodEvent) {
	select {
	case a.reports <- report:
	default:
	}
}

// Run works until the context ends, or until the runtime hangs, which is an error that requires a new process.
func (a *Agent) Run(ctx context.Context) error {
	defer func() {
		if a.link != nil {
			a.link.Close()
		}
	}()
	for ctx.Err() == nil {
		a.pollLink()
		duty, wait := a.next()
		if duty == Idle {
			a.emitWarnings(ctx)
			a.wait(ctx, wait)
			continue
		}
		if err := a.do(ctx, duty); err != nil {
			return err
		}
	}
	return nil
}

func (a *Agent) next() (Task, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.options.Clock.Now()
	duty, wait := a.life.Next(now)
	if a.busy = now; duty == Idle {
		a.busy = time.Time{}
	}
	return duty, wait
}

// update changes the state under the lock.
func (a *Agent) update(what func(life *State, now time.Time)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	what(a.life, a.options.Clock.Now())
}

// pollLink updates the state from the connection.
func (a *Agent) pollLink() {
	if a.link == nil {
		return
	}
	select {
	case <-a.link.Lost():
		a.update(func(l *State, now time.Time) {
			a.link = nil
			l.Lost(now)
		})
		return
	default:
	}
	select {
	case <-a.link.Synchronized():
		a.update(func(l *State, now time.Time) { l.Synchronized(now) })
	default:
	}
	select {
	case <-a.link.Doubted():
		a.update(func(l *State, now time.Time) { l.Doubted(now) })
	default:
	}
}

// wait waits until something is due, or an event arrives.
func (a *Agent) wait(ctx context.Context, wait time.Duration) {
	timer := a.options.Clock.NewTimer(wait)
	defer timer.Stop()
	var synchronized, doubted, lost <-chan struct{}
	if a.link != nil {
		lost = a.link.Lost()
		a.mu.Lock()
		if !a.life.synchronized {
			synchronized = a.link.Synchronized()
		}
		if !a.life.doubted {
			doubted = a.link.Doubted()
		}
		a.mu.Unlock()
	}
	select {
	case <-timer.C():
	case <-synchronized:
	case <-doubted:
	case <-lost:
		klog.FromContext(ctx).Info("The connection to the container runtime is lost")
	case report := <-a.reports:
		a.event(ctx, &report)
	case <-ctx.Done():
	}
}

// emitWarnings writes events about the present problems.
func (a *Agent) emitWarnings(ctx context.Context) {
	for {
		select {
		case report := <-a.reports:
			a.event(ctx, &report)
		default:
			return
		}
	}
}

func (a *Agent) event(ctx context.Context, note *publish.PodEvent) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := a.options.Publisher.Event(bounded, note, a.options.Clock.Now()); err != nil {
		klog.FromContext(ctx).Error(err, "Event not written", "reason", note.Reason, "message", note.Message)
	}
}

func (a *Agent) do(ctx context.Context, duty Task) error {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	switch duty {
	case Discover:
		err = a.discover(ctx)
	case Dial:
		if err = a.dial(ctx); errors.Is(err, hooks.ErrStuck) {
			return err
		}
	case Hangup:
		klog.FromContext(ctx).Info("Connecting to the container runtime again: it may have ended a pod without an event")
		a.link.Close()
		<-a.link.Lost()
	case Read:
		var node *publish.Node
		node, err = a.options.Publisher.Node(bounded)
		a.update(func(l *State, now time.Time) { l.ReadNode(now, node, err) })
	case Publish:
		err = a.publish(bounded, ctx)
	case Renew:
		// The time is taken before the request: a Lease must not look newer than the state it stands for.
		now := a.options.Clock.Now()
		err = a.options.Publisher.Renew(bounded, now)
		a.update(func(l *State, _ time.Time) { l.Renewed(now, err) })
	case Check:
		_, err = a.hooks.Check(a.link)
		a.update(func(l *State, now time.Time) { l.Checked(now, err) })
	}
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Failed, and will be tried again", "duty", duty)
	}
	return nil
}

func (a *Agent) discover(ctx context.Context) error {
	local, warnings, err := a.options.Sources.Look()
	a.update(func(l *State, now time.Time) { l.OnDiscovered(now, local, err) })
	if err != nil {
		return err
	}
	a.hooks.Enforce(local.view())
	if !slices.Equal(warnings, a.warned) {
		for _, warning := range warnings {
			klog.FromContext(ctx).Info("The machine could be quieter", "warning", warning)
		}
		a.warned = warnings
	}
	return nil
}

func (a *Agent) dial(ctx context.Context) error {
	link, err := a.hooks.Connect(ctx, a.options.Socket, a.options.Clock, connectTimeout)
	var struggling bool
	a.update(func(l *State, now time.Time) {
		a.link = link
		l.Dialed(now, err)
		struggling = l.ConnectFailing()
	})
	if err == nil {
		return nil
	}
	if struggling {
		a.event(ctx, &publish.PodEvent{Reason: Unreachable, Message: fmt.Sprintf(
			"isolated CPUs are not offered: %v; is NRI enabled in the container runtime?", err)})
	}
	return err
}

func (a *Agent) publish(bounded, ctx context.Context) error {
	a.mu.Lock()
	wanted, published := a.life.Wanted()
	a.mu.Unlock()
	text, err := a.options.Publisher.Topology(bounded, published, wanted)
	a.update(func(l *State, now time.Time) { l.Published(now, text, err) })
	if err != nil {
		return err
	}
	if text != published {
		klog.FromContext(ctx).Info("Published the node's CPUs", "topology", text)
	}
	for _, problem := range wanted.Problems {
		a.event(ctx, &publish.PodEvent{Reason: Problem, Message: "isolated CPUs are not offered: " + problem})
	}
	return nil
}

// Ready returns why the node's isolated CPUs cannot be used, or nil. It may be called on any goroutine.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life.Ready(a.options.Clock.Now())
}

// Alive returns an error when the agent hangs. It may be called on any goroutine.
func (a *Agent) Alive() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if took := a.options.Clock.Since(a.busy); !a.busy.IsZero() && took > stuckAfter {
		return fmt.Errorf("a duty has been under way for %s", took)
	}
	return nil
}
