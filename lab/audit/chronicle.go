package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"

	"github.com/tutti-sched/tutti/test/invariants"
)

// History follows every change of pods in the order in which the API server made them, and judges each moment in between:
// whether a node holds more than it offers, whether a pod has changed its node, and how long gangs have been bound in part.
// Audit looks at one moment, and sees nothing of what was mended before it. Its methods may be called from any goroutine.
type History struct {
	mutex sync.Mutex
	nodes map[string]*occupied
	pods  map[types.UID]*podOnNode
	gangs map[string]*gangHistory
	// binds is how many pods were seen to be given a node, last when the last of them was.
	binds int
	last  time.Time
	// arrived are when each of them was.
	arrived []time.Time
	// awaited are closed once so many binds were seen.
	awaited map[int]chan struct{}
	found   []string
	// over are the nodes that hold too much at this moment, and who was the last to come; overs is every time that one came to.
	over  map[string]types.UID
	overs []Overcommitment
	// gaps counts how often the server could not say what had happened since it was last asked.
	gaps int
}

// LabelGang names the gang of a pod to a History, whatever makes it one.
const LabelGang = "audit.tutti.dev/gang"

// podOnNode is a pod on a node.
type podOnNode struct {
	name, node, gang string
	request          invariants.Amounts
	over             bool
}

// gangHistory is how a gang fares.
type gangHistory struct {
	minimum int
	members map[types.UID]bool
	// whole reports that its minimum was bound and some are since.
	whole bool
	// since is when some of it, but not the minimum, came to be bound; longest is the longest time that took.
	since   time.Time
	longest time.Duration
}

// NewChronicle begins with nodes that stay as they are.
func NewChronicle(nodes ...*corev1.Node) *History {
	c := &History{
		nodes: map[string]*occupied{}, pods: map[types.UID]*podOnNode{}, gangs: map[string]*gangHistory{},
		awaited: map[int]chan struct{}{}, over: map[string]types.UID{},
	}
	for _, node := range nodes {
		c.nodes[node.Name] = &occupied{idle: invariants.AmountsOf(node.Status.Allocatable), last: map[string]arrival{}}
	}
	return c
}

// Expect tells of a gang, by namespace and name, and of its minimum, before the first of its members is bound.
func (c *History) Expect(namespace, name string, minimum int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.gangs[namespace+"/"+name] = &gangHistory{minimum: minimum, members: map[types.UID]bool{}}
}

// Follow takes in all pods, returns, and goes on in the background until the context ends. A server that goes away is waited
// for; when it cannot say what has changed meanwhile, all pods are taken in again, and what was in between is not seen: see
// Gaps.
func (c *History) Follow(ctx context.Context, client kubernetes.Interface) error {
	version, err := c.take(ctx, client)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			c.stream(ctx, client, version)
			// Until there is a list, or the end.
			_ = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
				version, err = c.take(ctx, client)
				return err == nil, nil
			})
			c.mutex.Lock()
			c.gaps++
			c.mutex.Unlock()
		}
	}()
	return nil
}

// take reads all pods, from a quorum.
func (c *History) take(ctx context.Context, client kubernetes.Interface) (string, error) {
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	there := map[types.UID]bool{}
	for i := range list.Items {
		there[list.Items[i].UID] = true
	}
	for _, uid := range slices.Sorted(maps.Keys(c.pods)) {
		if !there[uid] {
			c.podLeft(uid)
		}
	}
	for i := range list.Items {
		c.see(&list.Items[i])
	}
	return list.ResourceVersion, nil
}

// stream takes in changes until the server cannot go on from where it was.
func (c *History) stream(ctx context.Context, client kubernetes.Interface, version string) {
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Pods(metav1.NamespaceAll).Watch(ctx, options)
		},
	})
	if err != nil {
		return // an empty version, which no list has
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		pod, ok := event.Object.(*corev1.Pod)
		if !ok {
			return
		}
		c.mutex.Lock()
		if event.Type == watch.Deleted {
			c.podLeft(pod.UID)
		} else {
			c.see(pod)
		}
		c.mutex.Unlock()
	}
}

// see takes in a pod as it is now.
func (c *History) see(pod *corev1.Pod) {
	known := c.pods[pod.UID]
	switch {
	case known == nil && pod.Spec.NodeName == "":
		return
	case known == nil:
		c.podArrived(pod)
	case known.node != pod.Spec.NodeName:
		c.report("pod %s was bound to %s and is on %q", known.name, known.node, pod.Spec.NodeName)
	}
	if known = c.pods[pod.UID]; invariants.Finished(pod) && !known.over {
		known.over = true
		c.release(known)
		c.podRemoved(known, pod.UID)
	}
}

// podArrived takes in a pod that has been given a node.
func (c *History) podArrived(pod *corev1.Pod) {
	l := &podOnNode{name: pod.Namespace + "/" + pod.Name, node: pod.Spec.NodeName, request: invariants.RequestOf(pod)}
	c.pods[pod.UID] = l
	c.binds++
	c.last = time.Now()
	c.arrived = append(c.arrived, c.last)
	if reached := c.awaited[c.binds]; reached != nil {
		close(reached)
		delete(c.awaited, c.binds)
	}
	node, arrived := c.nodes[l.node], arrival{l.name, c.last, boundAt(pod)}
	if node == nil {
		c.report("pod %s was bound to %s, which does not exist", l.name, l.node)
	} else {
		node.idle.Add(l.request, -1)
		if short := node.short(); short != "" {
			c.over[l.node] = pod.UID
			over := Overcommitment{Node: l.node, Resource: short, Pod: l.name, Scheduler: pod.Spec.SchedulerName}
			if other := node.lastBut(over.Scheduler); other.pod != "" {
				over.Other, over.After = other.pod, arrived.since(other)
			}
			c.overs = append(c.overs, over)
		}
		node.last[pod.Spec.SchedulerName] = arrived
	}
	l.gang = pod.Namespace + "/" + pod.Labels[LabelGang]
	if g := c.gangs[l.gang]; g != nil {
		g.members[pod.UID] = true
		g.evaluate(c.last)
	}
}

// podLeft takes in that a pod is gone.
func (c *History) podLeft(uid types.UID) {
	l := c.pods[uid]
	if l == nil {
		return
	}
	delete(c.pods, uid)
	if !l.over {
		c.release(l)
	}
	c.podRemoved(l, uid)
}

// podRemoved takes a pod out of its gang.
func (c *History) podRemoved(l *podOnNode, uid types.UID) {
	if g := c.gangs[l.gang]; g != nil {
		delete(g.members, uid)
		g.evaluate(time.Now())
	}
}

// release releases what a pod held.
func (c *History) release(l *podOnNode) {
	if node := c.nodes[l.node]; node != nil {
		node.idle.Add(l.request, 1)
		if node.short() == "" {
			delete(c.over, l.node)
		}
	}
}

// evaluate takes note of whether the gang is bound in part. One that was whole is none that starts in part, until all are gone.
func (g *gangHistory) evaluate(now time.Time) {
	count := len(g.members)
	g.whole = count > 0 && (g.whole || count >= g.minimum)
	switch {
	case count > 0 && !g.whole && g.since.IsZero():
		g.since = now
	case (count == 0 || g.whole) && !g.since.IsZero():
		g.longest = max(g.longest, now.Sub(g.since))
		g.since = time.Time{}
	}
}

func (c *History) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// Found is what was seen and must not be, a sentence each; overcommitted nodes aside.
func (c *History) Found() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.found)
}

// Gaps is how often the server could not say what had changed.
func (c *History) Gaps() int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.gaps
}

// Overs is every time that a node came to hold too much.
func (c *History) Overs() []Overcommitment {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.overs)
}

// Over are the nodes that hold too much at this moment, each with the UID of the pod that came last.
func (c *History) Over() map[string]types.UID {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return maps.Clone(c.over)
}

// Binds is how many pods were given a node so far, and when the last of them was seen.
func (c *History) Binds() (int, time.Time) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.binds, c.last
}

// At is when that bind was seen, counted from one; there must have been so many.
func (c *History) At(bind int) time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.arrived[bind-1]
}

// More returns a channel that is closed when so many more pods have been given a node.
func (c *History) More(count int) <-chan struct{} {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	reached := c.awaited[c.binds+count]
	if reached == nil {
		reached = make(chan struct{})
		c.awaited[c.binds+count] = reached
	}
	return reached
}

// Partial are the gangs of which some are bound and fewer than the minimum, and that were not whole since the first of them
// was, sorted.
func (c *History) Partial() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var names []string
	for name, g := range c.gangs {
		if !g.since.IsZero() {
			names = append(names, fmt.Sprintf("%s (%d of %d)", name, len(g.members), g.minimum))
		}
	}
	slices.Sort(names)
	return names
}

// Bound is how many members of a gang are on nodes.
func (c *History) Bound(namespace, name string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	g := c.gangs[namespace+"/"+name]
	if g == nil {
		return 0
	}
	return len(g.members)
}

// LongestPartial is the longest time for which a gang was bound in part, one that still is included.
func (c *History) LongestPartial() time.Duration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var longest time.Duration
	for _, g := range c.gangs {
		longest = max(longest, g.longest)
		if !g.since.IsZero() {
			longest = max(longest, time.Since(g.since))
		}
	}
	return longest
}
