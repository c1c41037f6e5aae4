// Package observe watches gangs start from outside: what the API server tells a watch, stamped with the time it arrives.
// It knows nothing of a scheduler's books and writes nothing. What is wrong in the end is lab/audit's business.
package observe

import (
	"context"
	"errors"
	"fmt"
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

// Partial tells whether some members are bound, but too few.
func (g Gang) Partial() bool { return g.Bound > 0 && g.Bound < g.Minimum }

// Answered tells whether the gang has started, or waits and says why.
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
	pods, err := o.watchPods(ctx, client, options)
	if err != nil {
		return nil, err
	}
	go o.follow(ctx, "pods", pods)
	if !options.Thorough {
		return o, nil
	}
	groups := client.Groups.SchedulingV1alpha1().PodGroups(options.Namespace)
	list, err := groups.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list PodGroups: %w", err)
	}
	events, err := groups.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return nil, fmt.Errorf("watch PodGroups: %w", err)
	}
	go o.follow(ctx, "PodGroups", events)
	return o, nil
}

func (o *Observer) watchPods(ctx context.Context, client *load.Client, options Options) (watch.Interface, error) {
	pods := client.Core.CoreV1().Pods(options.Namespace)
	list, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	from := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
	if !options.Thorough {
		from.FieldSelector = "spec.nodeName!="
	}
	events, err := pods.Watch(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return events, nil
}

// follow takes in one watch until it ends.
func (o *Observer) follow(ctx context.Context, what string, events watch.Interface) {
	defer events.Stop()
	for event := range events.ResultChan() {
		o.see(time.Now(), event.Object)
	}
	if ctx.Err() == nil {
		o.fail(fmt.Errorf("the watch of %s has ended", what))
	}
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
