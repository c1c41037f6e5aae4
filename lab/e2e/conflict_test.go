package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/tutti-sched/tutti/internal/agent/enforce"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/harness"
	isolcpu "github.com/tutti-sched/tutti/pkg/isolated"
)

const (
	// splitNodes nodes with eight isolated CPUs each are too few for splitPods pods with one.
	splitNodes, splitPods = 10, 200
	splitRoom             = 8 * splitNodes
	// resolved is how long two pods may both be bound to one CPU.
	resolved = 10 * time.Second
)

// yard plays the kubelets of nodes with isolated CPUs, what the agents there decide included, and the owner of the pods,
// which makes another one for each that is gone. It notes who runs where, and how long two pods were bound to one CPU. One
// goroutine writes.
type yard struct {
	lab *harness.Env

	mutex    sync.Mutex
	machines map[string]*enforce.Enforcer
	pods     map[types.UID]*corev1.Pod
	// users are the pods whose process runs on a CPU of a node.
	users map[string]types.UID
	// running are those that were started, refused how often one was not.
	running map[types.UID]*isolcpu.Assignment
	refused int
	// bound are the pods that were given a CPU of a node and are not in flight out, since when there is more than one.
	bound map[string]map[types.UID]bool
	since map[string]time.Time
	// met counts the CPUs at which that was so, longest is the longest time.
	met      int
	longest  time.Duration
	problems []string
	// made counts the pods that were made.
	made atomic.Int64
}

// watchYard begins with no pods, and goes on until the test ends.
func watchYard(t *testing.T, lab *harness.Env, nodes []*corev1.Node) *yard {
	t.Helper()
	y := &yard{
		lab: lab, machines: map[string]*enforce.Enforcer{}, pods: map[types.UID]*corev1.Pod{}, users: map[string]types.UID{},
		running: map[types.UID]*isolcpu.Assignment{}, bound: map[string]map[types.UID]bool{}, since: map[string]time.Time{},
	}
	for _, node := range nodes {
		topology, err := isolcpu.ParseTopology(node.Annotations[isolcpu.TopologyAnnotation])
		if err != nil {
			t.Fatal(err)
		}
		machine := enforce.New(node.Name)
		machine.Configure(enforce.View{Isolated: topology.Isolated, Online: topology.Online, NUMA: topology.NUMA})
		y.machines[node.Name] = machine
	}
	pods := lab.Clientset.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Fatalf("%d pods, want none to begin with: %v", len(list.Items), err)
	}
	stream, err := toolswatch.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: pods.Watch,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.run(ctx, stream.ResultChan())
	}()
	t.Cleanup(func() {
		cancel()
		stream.Stop()
		<-done
	})
	return y
}

// run works until the context ends. What an agent has refused is tried again every tenth of a second, as a kubelet would later.
func (y *yard) run(ctx context.Context, events <-chan watch.Event) {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case event := <-events:
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				if ctx.Err() == nil {
					y.problem("the watch has ended: %v", event.Object)
				}
				return
			}
			y.see(ctx, pod, event.Type == watch.Deleted)
		case <-again.C:
			y.startAll(ctx)
		}
	}
}

func (y *yard) problem(format string, args ...any) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	y.problems = append(y.problems, fmt.Sprintf(format, args...))
}

func (y *yard) see(ctx context.Context, pod *corev1.Pod, gone bool) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	y.count(pod, gone)
	if y.pods[pod.UID] = pod; gone {
		delete(y.pods, pod.UID)
	}
	switch {
	case gone:
		y.end(pod)
		y.tell(y.make(ctx, 1))
	case pod.DeletionTimestamp != nil:
		y.end(pod)
		y.tell(y.lab.Clientset.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
		}))
	default:
		y.start(ctx, pod)
	}
}

func (y *yard) tell(err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		y.problems = append(y.problems, err.Error())
	}
}

// count follows who was given what, whether or not it runs.
func (y *yard) count(pod *corev1.Pod, gone bool) {
	held, err := isolcpu.AssignedTo(pod)
	if pod.Spec.NodeName == "" {
		return
	}
	if err != nil || held == nil {
		y.problems = append(y.problems, fmt.Sprintf("pod %s is bound without CPUs: %v", pod.Name, err))
		return
	}
	for id := held.CPUs.Next(0); id >= 0; id = held.CPUs.Next(id + 1) {
		key := fmt.Sprintf("%s/%d", held.Node, id)
		if y.bound[key] == nil {
			y.bound[key] = map[types.UID]bool{}
		}
		if y.bound[key][pod.UID] = true; gone || pod.DeletionTimestamp != nil {
			delete(y.bound[key], pod.UID)
		}
		switch begun, conflict := y.since[key]; {
		case len(y.bound[key]) > 1 && !conflict:
			y.since[key] = time.Now()
			y.met++
		case len(y.bound[key]) <= 1 && conflict:
			y.longest = max(y.longest, time.Since(begun))
			delete(y.since, key)
		}
	}
}

// start starts the pod's container, if it is bound and the agent there lets it.
func (y *yard) start(ctx context.Context, pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || y.running[pod.UID] != nil {
		return
	}
	id := string(pod.UID)
	placed, refusal := y.machines[pod.Spec.NodeName].Create(
		&enforce.Pod{Sandbox: id, UID: id, Namespace: pod.Namespace, Name: pod.Name, Annotations: pod.Annotations},
		&enforce.Container{ID: id, Sandbox: id, Name: "main"})
	if refusal != nil {
		y.refused++
		if refusal.Reason != enforce.Overlap {
			y.problems = append(y.problems, fmt.Sprintf("pod %s is refused: %v", pod.Name, refusal))
		}
		return
	}
	y.running[pod.UID] = &isolcpu.Assignment{Node: pod.Spec.NodeName, CPUs: placed.CPUs}
	for cpu := placed.CPUs.Next(0); cpu >= 0; cpu = placed.CPUs.Next(cpu + 1) {
		key := fmt.Sprintf("%s/%d", pod.Spec.NodeName, cpu)
		if user, used := y.users[key]; used {
			y.problems = append(y.problems, fmt.Sprintf("pod %s runs on CPU %s, and pod %s, too", pod.UID, key, user))
		}
		y.users[key] = pod.UID
	}
	_, err := y.lab.Clientset.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Running"}}`, pod.UID), metav1.PatchOptions{}, "status")
	y.tell(err)
}

func (y *yard) startAll(ctx context.Context) {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	for _, pod := range y.pods {
		if pod.DeletionTimestamp == nil {
			y.start(ctx, pod)
		}
	}
}

// end ends what runs of a pod.
func (y *yard) end(pod *corev1.Pod) {
	if at := y.running[pod.UID]; at != nil {
		for cpu := at.CPUs.Next(0); cpu >= 0; cpu = at.CPUs.Next(cpu + 1) {
			delete(y.users, fmt.Sprintf("%s/%d", at.Node, cpu))
		}
		delete(y.running, pod.UID)
	}
	if machine := y.machines[pod.Spec.NodeName]; machine != nil {
		machine.RemoveSandbox(string(pod.UID))
	}
}

// make makes pods, a quarter of them for one of the schedulers alone.
func (y *yard) make(ctx context.Context, count int) error {
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		made := y.made.Add(1)
		pods[i] = wants(y.lab, fmt.Sprintf("split-%d", made), "1")
		if made%4 == 0 {
			pods[i].Spec.SchedulerName = "another"
		}
	}
	return y.lab.CreatePods(ctx, pods...)
}

// atRest is nil once as many pods run as there is capacity for, the others wait without a node, and no two are given one CPU.
func (y *yard) atRest() error {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	waiting := 0
	for _, pod := range y.pods {
		if pod.Spec.NodeName == "" {
			waiting++
		}
	}
	if len(y.problems) > 0 || len(y.running) != splitRoom || waiting != splitPods-splitRoom || len(y.since) > 0 {
		return fmt.Errorf("%d run, %d wait, of %d; two pods on %d CPUs; %d problems, such as %v",
			len(y.running), waiting, len(y.pods), len(y.since), len(y.problems), y.problems[:min(3, len(y.problems))])
	}
	return nil
}

// conflicts reports that two pods were given one CPU, and that an agent has refused one.
func (y *yard) conflicts() bool {
	y.mutex.Lock()
	defer y.mutex.Unlock()
	return y.met > 0 && y.refused > 0
}

var overlapCount = regexp.MustCompile(`(?m)^isolcpu_conflicts_total\{kind="overlap"\} ([0-9]+)$`)

// overlaps returns how many conflicts a scheduler has counted.
func overlaps(t *testing.T, s *harness.Scheduler) int {
	t.Helper()
	text, err := s.Get(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	found := overlapCount.FindSubmatch(text)
	if found == nil {
		return 0
	}
	count, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// TestTwoSchedulersAtOnce lets two schedulers lead at the same time, over two hundred pods with one isolated CPU each for
// eighty such CPUs; most pods are of both, some of one of them, which the other does not see coming. Both give the same CPUs
// to different pods; no two pods ever run on one, each conflict is counted and over within ten seconds, and in the end eighty
// run and the rest waits.
func TestTwoSchedulersAtOnce(t *testing.T) {
	t.Parallel()
	lab, _ := quietCluster(t)
	nodes := quietNodes(t, "split", splitNodes)
	lab.Nodes(t, nodes...)
	y := watchYard(t, lab, nodes)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	var schedulers []*harness.Scheduler
	for name, args := range map[string][]string{"one": {"--isolated-cpus-without-agents"}, "another": {"--scheduler-name=tutti", "--scheduler-name=another", "--isolated-cpus-without-agents"}} {
		schedulers = append(schedulers, lab.Scheduler(t, harness.SchedulerOptions{Name: name, Path: program, Args: args}))
	}
	// Immediately, so that one scheduler decides about some of them before the other has seen the same ones.
	if err := y.make(t.Context(), splitPods); err != nil {
		t.Fatal(err)
	}
	// Where one of them is the faster one for so long that they do not meet, all pods are made again.
	counted := make([]int, len(schedulers))
	lab.Eventually(t, func() error {
		if err := y.atRest(); err != nil {
			return err
		}
		for i, s := range schedulers {
			counted[i] = overlaps(t, s)
		}
		if y.conflicts() && !slices.Contains(counted, 0) {
			return nil
		}
		all := lab.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.GracePeriodSeconds(0))
		return errors.Join(errors.New("the schedulers have not met"), all)
	})
	before := []int{cycles(t, schedulers[0]), cycles(t, schedulers[1])}
	ns := lab.Namespace(t)
	for i := range 2 { // both see it come, and that it is bound
		lab.AfterCycle(t, lab.Pod(ns, fmt.Sprintf("later-%d", i)))
	}
	lab.Eventually(t, func() error {
		for i, s := range schedulers {
			if now := cycles(t, s); now < before[i]+2 {
				return fmt.Errorf("scheduler %d has had %d cycles since all was at rest", i, now-before[i])
			}
		}
		return nil
	})
	if err := y.atRest(); err != nil {
		t.Error(err)
	}
	y.mutex.Lock()
	defer y.mutex.Unlock()
	t.Logf("two pods were given one of %d CPUs, for up to %s; counted %v times; agents refused %d times; %d pods were made",
		y.met, y.longest.Round(time.Millisecond), counted, y.refused, y.made.Load())
	takings{y.longest}.check(t, "the longest that two pods were bound to a CPU", resolved)
}
