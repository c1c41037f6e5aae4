package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// strangers is the namespace of the other scheduler's pods.
const strangers = "strangers"

// late is for how long a scheduler may not know of what another one has bound, beside the time that the binds of a gang take
// on this machine: what the watch takes, and the cycle.
const late = 5 * time.Second

// TestAnotherSchedulerOnTheSameNodes has kube-scheduler bind fifty pods a second to the nodes on which gangs are started,
// together more than there is capacity for (STRANGERS=30m for that long). Neither knows of the other's binds before the watch
// tells: a node may come to hold too much, and its kubelet, which is played here, then refuses who came last. Controllers,
// played as well, make lost members again. No gang stays in part; and no bind of ours comes long after the one that it
// collides with.
func TestAnotherSchedulerOnTheSameNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, noLog, cluster.Options{Scheduler: true})
	w.shared, w.batch = true, w.room/2
	if err := w.load.Namespace(t.Context(), strangers); err != nil {
		t.Fatal(err)
	}
	w.start("--bind-deadline=5s")
	others := &others{world: w, least: w.room * 3 / 10, most: w.room * 7 / 10}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan struct{})
	go func() {
		defer close(left)
		others.come(ctx)
	}()
	whole, begun := 0, time.Now()
	long := span(t, "STRANGERS", 15*time.Second)
	next := begun.Add(30 * time.Second)
	// On a slow machine it takes longer until the first gang has started.
	for w.begin(); time.Since(begun) < long || whole == 0 && time.Since(begun) < patience; w.pass(200 * time.Millisecond) {
		w.replace()
		if w.started() {
			whole += len(w.gangs)
			w.end()
			w.begin()
		}
		if time.Now().After(next) {
			next = next.Add(30 * time.Second)
			t.Logf("%d gangs started; %d times a node held too much", whole, len(w.chronicle.Overs()))
		}
	}
	leave()
	<-left
	others.leave()
	w.lab.Eventually(t, func() error {
		others.refuse(t.Context())
		w.replace()
		if !w.started() {
			return fmt.Errorf("in part: %v", w.chronicle.Partial())
		}
		return nil
	})
	whole += len(w.gangs)
	w.audited()
	overs := w.chronicle.Overs()
	var ours int
	var after []time.Duration
	for _, over := range overs {
		if over.Scheduler != harness.SchedulerName {
			continue
		}
		ours++
		after = append(after, over.After)
		if over.Other == "" || over.After > late+w.chronicle.LongestPartial() {
			t.Errorf("this is ours to know: %s", over)
		}
	}
	if whole == 0 {
		t.Error("no gang has started beside the other scheduler's pods")
	}
	t.Logf("RESULT strangers: %d gangs started beside %d pods of kube-scheduler; %d times a node came to hold too much, %d times by a bind "+
		"of ours, the last of kube-scheduler's there before it by %s; %d pods refused by the kubelet and created again; gangs left in part 0; a gang was in "+
		"part for at most %s", whole, others.made, len(overs), ours, spread(after), others.refused,
		w.chronicle.LongestPartial().Round(time.Millisecond))
}

// span is a time from the environment, such as STRANGERS=30m, or the one for every day.
func span(t *testing.T, variable string, everyDay time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return everyDay
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s=%s: %v", variable, text, err)
	}
	return d
}

// others is the pods of the other scheduler: fifty are made in a second until there are most, then as many go until there are
// least.
type others struct {
	*world
	least, most   int
	made, refused int
	there         []*corev1.Pod
}

// come lets them come and go until the context ends, and plays the kubelets.
func (c *others) come(ctx context.Context) {
	growing := true
	_ = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		switch count := len(c.there); {
		case count >= c.most:
			growing = false
		case count <= c.least:
			growing = true
		}
		if growing {
			pod := c.lab.Pod(strangers, fmt.Sprintf("pod-%d", c.made), oneCPU, harness.ScheduledBy("default-scheduler"))
			c.check(ctx, c.lab.Client.Create(ctx, pod))
			c.made++
			c.there = append(c.there, pod)
		} else {
			c.check(ctx, c.lab.Client.Delete(ctx, c.there[0], client.GracePeriodSeconds(0)))
			c.there = c.there[1:]
		}
		c.refuse(ctx)
		return false, nil
	})
}

// check fails the test by what goes wrong before the end.
func (c *others) check(ctx context.Context, err error) {
	if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		c.Error(err)
	}
}

// leave lets all of them go.
func (c *others) leave() {
	for _, pod := range c.there {
		c.check(c.Context(), c.lab.Client.Delete(c.Context(), pod, client.GracePeriodSeconds(0)))
	}
	c.there = nil
}

// refuse is what a kubelet does that is given more than its node holds: the pod that came last has failed.
func (c *others) refuse(ctx context.Context) {
	over := c.chronicle.Over()
	if len(over) == 0 {
		return
	}
	var pods corev1.PodList
	c.check(ctx, c.lab.Client.List(ctx, &pods))
	for i := range pods.Items {
		pod := &pods.Items[i]
		if over[pod.Spec.NodeName] != pod.UID || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		before := pod.DeepCopy()
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "OutOfcpu"
		c.check(ctx, c.lab.Client.Status().Patch(ctx, pod, client.MergeFrom(before)))
		c.refused++
	}
}

func (w *world) delete(pod *corev1.Pod) {
	w.Helper()
	if err := w.lab.Client.Delete(w.Context(), pod, client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
		w.Fatal(err)
	}
}

// replace is what the controllers of gangs do: members that have failed or are gone are made again.
func (w *world) replace() {
	w.Helper()
	pods, err := w.lab.Pods(w.Context(), metav1.NamespaceDefault)
	if err != nil {
		w.Fatal(err)
	}
	there := map[string]bool{}
	for i := range pods {
		if there[pods[i].Name] = pods[i].Status.Phase != corev1.PodFailed; !there[pods[i].Name] {
			w.delete(&pods[i])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.gangs)) {
		for i := range w.gangs[name].size {
			if member := fmt.Sprintf("%s-%d", name, i); !there[member] {
				w.lab.Create(w.T, w.member(name, i))
			}
		}
	}
}

// started reports whether all members of all gangs of the batch are bound.
func (w *world) started() bool {
	for name, gang := range w.gangs {
		if w.chronicle.Bound(metav1.NamespaceDefault, name) != gang.size {
			return false
		}
	}
	return true
}
