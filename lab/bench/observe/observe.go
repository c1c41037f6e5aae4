// Package observe watches gangs start from outside: what the API server tells a watch, stamped with the time it arrives.
// It knows nothing of a scheduler's accounting and writes nothing. What is wrong in the end is lab/audit's business.
package observe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/bench/load"
)

// Gang is how far a gang is.
type Gang struct {
	// Minimum is how many members it needs.
	Minimum int
	// Bound is how many members have a node.
	Bound int
	// First and Started are when the first member, and the one that made the minimum full, was seen on a node.
	First, Started time.Time
	// Waits is the reason of a Scheduled=False condition, empty when there is none.
	Waits string
}

// Partial reports whether some members are bound, but too few.
func (g Gang) Partial() bool { return g.Bound > 0 && g.Bound < g.Minimum }

// Answered reports whether the gang has started, or waits and says why.
func (g Gang) Answered() bool { return g.Bound >= g.Minimum || g.Bound == 0 && g.Waits != "" }

// Options say what to watch.
type Options struct {
	// Namespace is where the gangs are.
	Namespace string
	// Gangs are the minimum of each, by the name of its PodGroup.
	Gangs map[string]int
	// Thorough also watches the PodGroups, and pods that have no node. Without it the watch costs the server one event
	// for each bound pod.
	Thorough bool
}

// Observer collects what the watches tell until its context ends. Its methods may be called from any goroutine.
type Observer struct {
	mu         sync.Mutex
	gangs      map[string]*Gang
	bound      map[types.UID]struct{}
	times      []time.Time
	lastBind   time.Time
	lastChange time.Time
	err        error
}

// Start begins to watch; what happens after it has returned is not missed.
func Start(ctx context.Context, client *load.Client, options Options) (*Observer, error) {
	o := &Observer{gangs: map[string]*Gang{}, bound: map[types.UID]struct{}{}, lastChange: time.Now()}
	for name, minimum := range options.Gangs {
		o.gangs[name] = &Gang{Minimum: minimum}
	}
	if err := o.watchPods(ctx, client, options); err != nil {
		return nil, err
	}
	if !options.Thorough {
		return o, nil
	}
	groups := client.Groups.SchedulingV1alpha1().PodGroups(options.Namespace)
	list, err := groups.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	return o, o.begin(ctx, source{what: "PodGroups", open: groups.Watch}, list.ResourceVersion)
}

func (o *Observer) watchPods(ctx context.Context, client *load.Client, options Options) error {
	pods := client.Core.CoreV1().Pods(options.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	from := source{what: "pods", open: pods.Watch}
	if !options.Thorough {
		from.selector = "spec.nodeName!="
	}
	return o.begin(ctx, from, list.ResourceVersion)
}

// source is what a watch watches.
type source struct {
	what     string
	open     func(context.Context, metav1.ListOptions) (watch.Interface, error)
	selector string
}

func (s source) watch(ctx context.Context, version string) (watch.Interface, error) {
	events, err := s.open(ctx, metav1.ListOptions{ResourceVersion: version, FieldSelector: s.selector})
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", s.what, err)
	}
	return events, nil
}

// pause waits for a while, or until the context ends.
func pause(ctx context.Context, span time.Duration) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// begin watches, and goes on in the background.
func (o *Observer) begin(ctx context.Context, from source, version string) error {
	events, err := from.watch(ctx, version)
	if err != nil {
		return err
	}
	go o.follow(ctx, from, version, events)
	return nil
}

// barren is how many watches in a row may end without having brought anything, each a tenth of a second after the one before.
const barren = 20

// follow takes in a watch until the context ends. A server may end a watch at any time, such as a young one whose caches
// begin again; the next one goes on where the last one ended. When too many in a row bring nothing, it all ends.
func (o *Observer) follow(ctx context.Context, from source, version string, events watch.Interface) {
	for empty := 0; ctx.Err() == nil; {
		reached := o.drain(events, version)
		if ctx.Err() != nil {
			return
		}
		if empty++; reached != version {
			empty = 0
		}
		if empty == barren {
			o.fail(fmt.Errorf("the watch of %s has ended", from.what))
			return
		}
		if empty > 0 {
			pause(ctx, 100*time.Millisecond)
		}
		version = reached
		var err error
		if events, err = from.watch(ctx, version); err != nil {
			o.fail(err)
			return
		}
	}
}

// drain takes in one watch until it ends and returns the version that it came to.
func (o *Observer) drain(events watch.Interface, version string) string {
	defer events.Stop()
	for event := range events.ResultChan() {
		o.see(time.Now(), event.Object)
		if object, err := meta.Accessor(event.Object); err == nil && object.GetResourceVersion() != "" {
			version = object.GetResourceVersion()
		}
	}
	return version
}

func (o *Observer) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = errors.Join(o.err, err)
}

// see takes in one object.
func (o *Observer) see(now time.Time, object runtime.Object) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lastChange = now
	switch object := object.(type) {
	case *corev1.Pod:
		o.seePod(now, object)
	case *v1alpha1.PodGroup:
		gang := o.gangs[object.Name]
		if gang == nil {
			return
		}
		gang.Waits = ""
		condition := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionScheduled)
		if condition != nil && condition.Status == metav1.ConditionFalse {
			gang.Waits = condition.Reason
		}
	case *metav1.Status:
		o.err = errors.Join(o.err, fmt.Errorf("watch: %s", object.Message))
	}
}

func (o *Observer) seePod(now time.Time, pod *corev1.Pod) {
	gang := o.gangs[pod.Labels[v1alpha1.LabelPodGroup]]
	if _, known := o.bound[pod.UID]; known || pod.Spec.NodeName == "" || gang == nil {
		return
	}
	o.bound[pod.UID] = struct{}{}
	o.times = append(o.times, now)
	o.lastBind = now
	if gang.Bound == 0 {
		gang.First = now
	}
	gang.Bound++
	if gang.Bound == gang.Minimum {
		gang.Started = now
	}
}

// Bound is how many pods have a node, and when the last of them was seen.
func (o *Observer) Bound() (int, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.bound), o.lastBind
}

// Times is when each of these pods was seen, in the order seen.
func (o *Observer) Times() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.times)
}

// LastChange is when anything was last seen to change, or the start when nothing was.
func (o *Observer) LastChange() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastChange
}

// Gangs is how far each gang is, by name.
func (o *Observer) Gangs() map[string]Gang {
	o.mu.Lock()
	defer o.mu.Unlock()
	gangs := make(map[string]Gang, len(o.gangs))
	for name, gang := range o.gangs {
		gangs[name] = *gang
	}
	return gangs
}

// look often enough to notice the end soon, and seldom enough to cost nothing; times are those of the watch anyway.
const look = 50 * time.Millisecond

// WaitBound waits until so many pods have a node.
func (o *Observer) WaitBound(ctx context.Context, count int) error {
	err := o.wait(ctx, func() bool { return len(o.bound) >= count })
	if err != nil {
		bound, _ := o.Bound()
		return fmt.Errorf("%d of %d pods are bound: %w", bound, count, err)
	}
	return nil
}

// WaitQuiet waits until nothing has changed for a while.
func (o *Observer) WaitQuiet(ctx context.Context, quiet time.Duration) error {
	return o.wait(ctx, func() bool { return time.Since(o.lastChange) >= quiet })
}

// WaitSettled waits until every gang has an answer and nothing has changed for a while.
func (o *Observer) WaitSettled(ctx context.Context, quiet time.Duration) error {
	var open []string
	err := o.wait(ctx, func() bool {
		if time.Since(o.lastChange) < quiet {
			return false
		}
		open = open[:0]
		for name, gang := range o.gangs {
			if !gang.Answered() {
				open = append(open, fmt.Sprintf("%s (%d of %d bound, reason %q)", name, gang.Bound, gang.Minimum, gang.Waits))
			}
		}
		return len(open) == 0
	})
	if err != nil {
		return fmt.Errorf("not at rest with an answer for every gang: %d have none, %v: %w", len(open), open[:min(3, len(open))], err)
	}
	return nil
}

// wait asks until the answer is yes, the context ends or a watch fails.
func (o *Observer) wait(ctx context.Context, done func() bool) error {
	return wait.PollUntilContextCancel(ctx, look, true, func(context.Context) (bool, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return done(), o.err
	})
}
