package e2e

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
)

// autoscaler adds a node for each pod of a namespace that asks for one by the rule of Cluster Autoscaler and Karpenter, as soon
// as any version of the pod does. A node has capacity for one such pod.
type autoscaler struct {
	t         *testing.T
	namespace string

	mu sync.Mutex
	// added are the nodes, by the name of the pod that they were added for; asking are the pods that ask, and taken the nodes of
	// these that a pod was bound to.
	added         map[string]string
	asking, taken map[string]bool
}

// accelerator is a resource that no node has before the autoscaler adds one.
const accelerator = "autoscaler.example/accelerator"

// asksForANode is the rule: Cluster Autoscaler takes pods without a node, not being deleted, with the condition
// PodScheduled=False of the reason Unschedulable (cluster-autoscaler/utils/kubernetes/listers.go), and no more those that are
// nominated; Karpenter the same unless they are nominated or owned by a DaemonSet or a node (pkg/utils/pod/scheduling.go,
// IsProvisionable).
func asksForANode(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "" || pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
}

func startAutoscaler(t *testing.T, namespace string) *autoscaler {
	t.Helper()
	a := &autoscaler{t: t, namespace: namespace, added: map[string]string{}, asking: map[string]bool{}, taken: map[string]bool{}}
	watch, err := env.Clientset.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range watch.ResultChan() {
			if pod, is := event.Object.(*corev1.Pod); is {
				a.see(pod, event.Type != apiwatch.Deleted)
			}
		}
	}()
	t.Cleanup(func() {
		watch.Stop()
		<-done
		var nodes []*corev1.Node
		for _, name := range a.added {
			nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if err := env.Cluster.DeleteNodes(context.WithoutCancel(t.Context()), nodes...); err != nil {
			t.Error(err)
		}
	})
	return a
}

// see takes note of a pod, and adds nodes while more pods ask for one than there are without a pod: another pod than the one that
// a node was added for may have taken it.
func (a *autoscaler) see(pod *corev1.Pod, exists bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asking, pod.Name)
	if exists && asksForANode(pod) {
		a.asking[pod.Name] = true
	}
	if slices.Contains(slices.Collect(maps.Values(a.added)), pod.Spec.NodeName) {
		a.taken[pod.Spec.NodeName] = true
	}
	for len(a.asking) > len(a.added)-len(a.taken) {
		name := pod.Name
		if a.added[name] != "" {
			name = fmt.Sprintf("%s-%d", name, len(a.added))
		}
		a.added[name] = a.namespace + "-" + name
		if err := env.Cluster.CreateNodes(a.t.Context(), cluster.Node(a.added[name], map[string]string{"cpu": "1", accelerator: "1"})); err != nil {
			a.t.Error(err)
		}
	}
}

// nodes returns how many nodes were added for pods whose names begin so.
func (a *autoscaler) nodes(prefix string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := 0
	for pod := range a.added {
		if strings.HasPrefix(pod, prefix) {
			count++
		}
	}
	return count
}

// gang makes a gang in a queue, each member of which fills a node of the autoscaler.
func (a *autoscaler) gang(queue, name string, minMember int32, pods int, options ...harness.PodOption) *v1alpha1.PodGroup {
	a.t.Helper()
	gang := group(a.namespace, name, minMember)
	gang.Spec.Queue = queue
	options = append([]harness.PodOption{harness.Requests(map[string]string{"cpu": "1", accelerator: "1"})}, options...)
	env.Create(a.t, gang)
	env.Create(a.t, members(a.namespace, name, "", pods, options...)...)
	return gang
}

// say is nil when each pod without a node whose name begins so has that reason.
func (a *autoscaler) say(prefix, reason string, want int) error {
	pods, err := env.Pods(a.t.Context(), a.namespace)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if strings.HasPrefix(pod.Name, prefix) && pod.Spec.NodeName == "" {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Reason == reason {
					want--
				}
			}
		}
	}
	if want != 0 {
		return fmt.Errorf("%d more pods %s* should say %s", want, prefix, reason)
	}
	return nil
}

// TestAGangScalesFromNothing: an autoscaler adds a node for each member of a gang that waits for capacity, its surplus too,
// from none, and no node for a gang that waits for its queue or its members.
func TestAGangScalesFromNothing(t *testing.T) {
	ns := env.Namespace(t)
	open, held := queueOf("autoscaler-open", "100"), queueOf("autoscaler-held", "2")
	createQueues(t, open, held)
	env.Scheduler(t, harness.SchedulerOptions{})
	a := startAutoscaler(t, ns)

	a.gang(held.Name, "held", 3, 3)
	a.gang(open.Name, "short", 3, 2)
	env.Eventually(t, func() error { return a.say("held", "QueueLimit", 3) })
	env.Eventually(t, func() error { return a.say("short", "NotEnoughMembers", 2) })
	a.gang(open.Name, "train", 8, 9)
	env.Eventually(t, func() error { return boundOf(t, ns, "train", 9) })
	if train, others := a.nodes("train"), a.nodes(""); train != 9 || others != 9 {
		t.Errorf("%d nodes were added, %d of them for the gang of 9 that lacked nothing else", others, train)
	}

	env.Create(t, env.Pod(ns, "short-2", harness.InGroup("short"), harness.Requests(map[string]string{"cpu": "1", accelerator: "1"})))
	env.Eventually(t, func() error { return boundOf(t, ns, "short", 3) })
	changeQueue(t, held, func(spec *v1alpha1.QueueSpec) { spec.Limit[corev1.ResourceCPU] = resource.MustParse("3") })
	env.Eventually(t, func() error { return boundOf(t, ns, "held", 3) })
	if got := a.nodes(""); got != 15 {
		t.Errorf("%d nodes were added for 15 pods", got)
	}
}

// TestNoNodeIsAddedForAGangThatWaitsForVictims, which another process takes over, too; it leaves alone what others nominate.
func TestNoNodeIsAddedForAGangThatWaitsForVictims(t *testing.T) {
	arena := newArena(t, "autoscaler", 0)
	first := env.Scheduler(t, harness.SchedulerOptions{Name: "autoscaler-first"})
	a := startAutoscaler(t, arena.ns)
	a.gang("", "low", 2, 2, ofClass(arena.low), goesSlowly)
	arena.bound("low", 2)
	a.gang("", "hinted", 2, 1, ofClass(arena.low))
	env.Eventually(t, func() error { return a.say("hinted", "NotEnoughMembers", 1) })
	hinted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: arena.ns, Name: "hinted-0"}}
	hint := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":"`+a.added["low-0"]+`"}}`))
	if err := env.Client.Status().Patch(t.Context(), hinted, hint, client.FieldOwner("karpenter")); err != nil {
		t.Fatal(err)
	}

	a.gang("", "high", 2, 2, ofClass(arena.high))
	env.Eventually(t, func() error { return a.say("high", "WaitingForVictims", 2) })
	first.Kill()
	second := env.Scheduler(t, harness.SchedulerOptions{Name: "autoscaler-second"})
	env.Nodes(t, cluster.Node("autoscaler-probe", map[string]string{"cpu": "1"}))
	env.AfterCycle(t, env.Pod(arena.ns, "probe", cpu("1")))
	text, err := second.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^tutti_nominated\{resource="cpu"\} 2$`).Match(text) {
		t.Errorf("not the capacity of 2 CPUs is nominated after a restart: %s", regexp.MustCompile(`(?m)^tutti_nominated.*$`).FindAll(text, -1))
	}
	if regexp.MustCompile(`(?m)^tutti_decisions_total\{kind="release-nomination"\} [1-9]`).Match(text) {
		t.Error("a nomination was taken back")
	}
	arena.letGo("low")
	arena.bound("high", 2)
	if low, all := a.nodes("low"), a.nodes(""); low != 2 || all != 2 {
		t.Errorf("%d nodes were added, %d of them for the gang that came first", all, low)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(hinted), hinted); err != nil || hinted.Status.NominatedNodeName == "" {
		t.Errorf("what another program nominated was taken back: %v", err)
	}
}
