package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is the edge towards foreign sources: their kinds may appear, vanish and be forbidden while the scheduler runs.

const (
	// askInterval is how often the API server is asked whether it serves the objects of a source, and soonInterval how often while
	// jobs lack such objects, or after they were found to be gone.
	askInterval  = time.Minute
	soonInterval = 6 * time.Second
	// firstReadTimeout is how long the first cycle waits for the objects of foreign sources at most.
	firstReadTimeout = 30 * time.Second
	// missedFor is for how long objects must be found to be not served, or forbidden, before they are given up: an API server that
	// restarts may not know them for a moment.
	missedFor = 15 * time.Second
)

// Follower watches the objects of foreign sources while the API server serves them, and pushes them, and how far they can be
// read. A kind that is not served costs one request for each askInterval, or soonInterval.
type Follower struct {
	served discovery.ServerResourcesInterface
	client dynamic.Interface
	push   func(Event)
	// off are the sources that are off.
	off      atomic.Pointer[[]string]
	followed []*followed
	// awaited are the sources of objects that jobs lack.
	awaited atomic.Pointer[[]model.Source]
	// interval, soon, given and timeout are askInterval, soonInterval, missedFor and firstReadTimeout, except in tests.
	interval, soon, given, timeout time.Duration
	clock                          clock.PassiveClock
}

// followed is one kind of objects. One goroutine owns it, except settled.
type followed struct {
	sources.Watch
	name string
	// source is its name where it is reported what was read.
	source *Source
	// stop ends the informer and returns when it pushes nothing any more; nil while none runs.
	stop func()
	// missed is since when the objects could not be read, zero when they can; last is the reading that was pushed last.
	missed time.Time
	last   Reading
	// settled reports that the first cycle need no longer wait for it; wake has a token when the next look is to come now: the
	// sources that are on may differ, jobs lack its objects, or the API server says that it does not serve them.
	settled atomic.Bool
	wake    chan struct{}
}

// NewFollower returns a follower of all foreign sources. push must not block.
func NewFollower(served discovery.ServerResourcesInterface, client dynamic.Interface, push func(Event)) *Follower {
	f := &Follower{served: served, client: client, push: push, interval: askInterval, soon: soonInterval, given: missedFor, timeout: firstReadTimeout, clock: clock.RealClock{}}
	for _, source := range sources.All() {
		if watch := source.Watch(); watch != nil {
			one := &followed{Watch: *watch, name: source.Name(), wake: make(chan struct{}, 1)}
			one.source = &Source{Name: watch.Resource.GroupResource().String(), HasSynced: one.settled.Load}
			f.followed = append(f.followed, one)
		}
	}
	f.off.Store(&[]string{})
	f.awaited.Store(&[]model.Source{})
	return f
}

// Sources returns what is to have been read before the first cycle. Each is ready after firstReadTimeout at the latest.
func (f *Follower) Sources() (sources []*Source) {
	for _, one := range f.followed {
		sources = append(sources, one.source)
	}
	return sources
}

// Use sets the sources that are off, by name. It may be called on any goroutine.
func (f *Follower) Use(off []string) {
	if slices.Equal(*f.off.Swap(&off), off) {
		return
	}
	for _, one := range f.followed {
		one.lookNow()
	}
}

// Await sets the sources of objects that jobs lack: whether these are served is asked more often. It may be called on any
// goroutine, and does not block.
func (f *Follower) Await(sources []model.Source) {
	before := *f.awaited.Swap(&sources)
	for _, one := range f.followed {
		if slices.Contains(sources, one.Source) && !slices.Contains(before, one.Source) {
			one.lookNow()
		}
	}
}

func (o *followed) lookNow() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// Run follows the sources until the context ends.
func (f *Follower) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, one := range f.followed {
		all.Go(func() { f.follow(ctx, one) })
	}
	all.Wait()
	return nil
}

func (f *Follower) follow(ctx context.Context, one *followed) {
	settle := time.AfterFunc(f.timeout, func() { one.settled.Store(true) })
	defer settle.Stop()
	for ctx.Err() == nil {
		f.look(ctx, one)
		interval := f.interval
		if !one.missed.IsZero() || one.stop == nil && slices.Contains(*f.awaited.Load(), one.Source) {
			interval = f.soon
		}
		timer := time.NewTimer(wait.Jitter(interval, 0.2))
		select {
		case <-ctx.Done():
		case <-one.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	if one.stop != nil {
		one.stop()
	}
}

// look asks whether the objects can be read, and begins or ends to watch them. An answer that is none changes nothing.
func (f *Follower) look(ctx context.Context, one *followed) {
	reading, err := NotRead, error(nil)
	if !slices.Contains(*f.off.Load(), one.name) {
		reading, err = f.ask(ctx, one)
	}
	switch {
	case err != nil:
		one.source.failure.Store(&err)
		klog.FromContext(ctx).Info("Whether the API server serves a group kind is not known", "resource", one.source.Name, "reason", err.Error())
		return
	case reading == IsRead:
		if one.missed = (time.Time{}); one.stop == nil {
			f.start(ctx, one)
		}
		return
	case one.stop != nil:
		if one.missed.IsZero() && reading != NotRead {
			one.missed = f.clock.Now()
			return
		}
		if reading != NotRead && f.clock.Since(one.missed) < f.given {
			return
		}
		one.stop()
		one.stop, one.missed = nil, time.Time{}
	}
	f.tell(ctx, one, reading)
}

// ask returns whether the objects can be read: IsRead when they can.
func (f *Follower) ask(ctx context.Context, one *followed) (Reading, error) {
	resource := one.Resource
	list, err := f.served.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	switch {
	case apierrors.IsNotFound(err):
		return NotServed, nil
	case err != nil:
		return NotRead, fmt.Errorf("discovery of %s: %w", resource.GroupVersion(), err)
	case !slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool { return served.Name == resource.Resource }):
		return NotServed, nil
	}
	_, err = f.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err):
		return NotAllowed, nil
	case apierrors.IsNotFound(err):
		return NotServed, nil
	case err != nil:
		return NotRead, fmt.Errorf("list of %s: %w", resource.GroupResource(), err)
	}
	return IsRead, nil
}

// start watches the objects until one.stop is called.
func (f *Follower) start(ctx context.Context, one *followed) {
	informer := dynamicinformer.NewFilteredDynamicInformer(f.client, one.Resource, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()
	sources, err := register([]informerSpec{{one.source.Name, informer, one.keep, eventHandler(f.push,
		func(spec *sources.Spec, gone bool) Event { return &ForeignSeen{spec, gone} })}})
	if err == nil {
		err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, failure error) {
			if sources[0].failed(ctx, reflector, failure); apierrors.IsNotFound(failure) || apierrors.IsForbidden(failure) {
				one.lookNow()
			}
		})
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "A foreign group kind cannot be watched") // it was never started: it cannot fail
		return
	}
	watching, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { informer.RunWithContext(watching) })
	running.Go(func() {
		if cache.WaitForCacheSync(watching.Done(), sources[0].HasSynced) {
			f.tell(ctx, one, IsRead)
		}
	})
	one.stop = func() {
		cancel()
		running.Wait()
	}
}

// tell pushes how far the objects can be read, if that has changed.
func (f *Follower) tell(ctx context.Context, one *followed, reading Reading) {
	if one.last != reading {
		one.last = reading
		klog.FromContext(ctx).Info("Foreign groups", "resource", one.source.Name, "state", reading.String())
		f.push(&ReadingChanged{Source: one.Source, Reading: reading})
	}
	one.settled.Store(true)
}

// keep is the transform of the informer: it keeps what the object says, and drops the object.
func (o *followed) keep(object any) (any, error) {
	raw, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	var spec *sources.Spec
	if why := recovered(func() { spec = o.Decode(raw) }); why != "" {
		spec = &sources.Spec{ObjectMeta: sources.Identity(raw), Source: o.Source, MinMember: 1, Contradiction: "it cannot be read: " + why}
	}
	return spec, nil
}
