package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
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

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/harness"
	isolcpu "github.com/tutti-sched/tutti/pkg/isolated"
)

// register follows every event about the pods of a namespace, and who holds which isolated CPUs by them.
type register struct {
	mutex    sync.Mutex
	bound    map[types.UID]*isolcpu.Assignment
	owners   map[string]types.UID // node and CPU → pod
	problems []string
	target   int
	reached  chan struct{}
	broken   bool
}

// registerOf begins to follow, until the test ends.
func registerOf(t *testing.T, lab *harness.Env, namespace string) *register {
	t.Helper()
	r := &register{bound: map[types.UID]*isolcpu.Assignment{}, owners: map[string]types.UID{}}
	followPods(t, lab, namespace, r.see, r.end)
	return r
}

// followPods begins with a namespace without pods, until the test ends: see is called with each change, in the order in which the
// API server made them, and end when nothing more is seen, both on one goroutine.
func followPods(t *testing.T, lab *harness.Env, namespace string, see func(watch.Event), end func()) {
	t.Helper()
	pods := lab.Clientset.CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Fatalf("%d pods, want none to begin with: %v", len(list.Items), err)
	}
	followFrom(t, list.ResourceVersion, pods.Watch, see, end)
}

// followFrom watches from a version on, until the test ends, and calls see and end as followPods does.
func followFrom(t *testing.T, version string, watching cache.WatchFuncWithContext, see func(watch.Event), end func()) {
	t.Helper()
	// A server may end a watch at any time; this one goes on where it was, and misses nothing.
	stream, err := toolswatch.NewRetryWatcherWithContext(t.Context(), version, &cache.ListWatch{WatchFuncWithContext: watching})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range stream.ResultChan() {
			see(event)
		}
		end()
	}()
	t.Cleanup(func() {
		stream.Stop()
		<-done
	})
}

// end takes note that nothing more is seen.
func (r *register) end() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.broken = true
}

func (r *register) see(event watch.Event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		r.broken = true
		return
	}
	before := r.bound[pod.UID]
	if event.Type == watch.Deleted {
		r.release(pod.UID, before)
		return
	}
	if pod.Spec.NodeName == "" {
		return
	}
	now, err := isolcpu.AssignedTo(pod)
	switch {
	case err != nil || now == nil:
		r.problem("%s is on %s and has no CPUs: %v", pod.Name, pod.Spec.NodeName, err)
		return
	case before != nil && before.CPUs != now.CPUs:
		r.problem("%s had CPUs %s and has %s", pod.Name, before.CPUs, now.CPUs)
	case before == nil:
		r.hold(pod, now)
	}
}

func (r *register) hold(pod *corev1.Pod, held *isolcpu.Assignment) {
	r.bound[pod.UID] = held
	for id := held.CPUs.Next(0); id >= 0; id = held.CPUs.Next(id + 1) {
		key := fmt.Sprintf("%s/%d", held.Node, id)
		if owner, taken := r.owners[key]; taken {
			r.problem("CPU %s of pod %s is given to %s", key, owner, pod.Name)
		}
		r.owners[key] = pod.UID
	}
	if len(r.bound) == r.target {
		close(r.reached)
		r.target = 0
	}
}

func (r *register) release(uid types.UID, held *isolcpu.Assignment) {
	if held == nil {
		return
	}
	delete(r.bound, uid)
	for id := held.CPUs.Next(0); id >= 0; id = held.CPUs.Next(id + 1) {
		delete(r.owners, fmt.Sprintf("%s/%d", held.Node, id))
	}
}

func (r *register) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// count returns how many pods are bound; the error is what was wrong so far.
func (r *register) count() (int, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.broken || len(r.problems) > 0 {
		return 0, fmt.Errorf("broken: %v; %d problems, such as %v", r.broken, len(r.problems), r.problems[:min(3, len(r.problems))])
	}
	return len(r.bound), nil
}

// on returns a channel that is closed once so many pods are bound, which must be more than are.
func (r *register) on(count int) <-chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.target, r.reached = count, make(chan struct{})
	return r.reached
}

// wait waits for what on returned.
func (r *register) wait(t *testing.T, reached <-chan struct{}) {
	t.Helper()
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case <-reached:
	case <-over.C:
		count, err := r.count()
		t.Fatalf("%d pods are bound, want more: %v", count, err)
	}
}

// all is nil once so many pods are bound and nothing was wrong.
func (r *register) all(want int) error {
	if count, err := r.count(); err != nil || count != want {
		return fmt.Errorf("%d pods are bound, want %d: %w", count, want, err)
	}
	return nil
}

// quietNodes are nodes with eight isolated CPUs each, as upperHalf has it, whose agents have published them.
func quietNodes(t *testing.T, prefix string, count int) []*corev1.Node {
	t.Helper()
	text, err := upperHalf(t).Text()
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Nodes(prefix, count, map[string]string{"cpu": "14", "memory": "64Gi"},
		cluster.NodeAnnotations(map[string]string{isolcpu.TopologyAnnotation: text}))
}

// wants is a pod that asks for so many isolated CPUs.
func wants(lab *harness.Env, name, cpus string, options ...harness.PodOption) *corev1.Pod {
	return lab.Pod(metav1.NamespaceDefault, name, append([]harness.PodOption{
		harness.Requests(map[string]string{"cpu": cpus}),
		harness.PodAnnotations(map[string]string{isolcpu.RequestAnnotation: "true"}),
	}, options...)...)
}

const (
	// killGang is how many pods a gang of TestKilledInTheMiddle has, killGangs how many gangs there are.
	killGang  = 5
	killGangs = 100
	// moreKills is how often more the scheduler is killed at most, until a kill has come between the binds of a gang.
	moreKills = 10
	// killWorkers is how many binds of the killed scheduler may be under way.
	killWorkers = 64
)

// kills returns how often TestKilledInTheMiddle kills the scheduler: KILLS=20 for as often as docs/isolcpu.md says, and not
// more often than there are gangs.
func kills(t *testing.T) int {
	t.Helper()
	return min(number(t, "KILLS", 3), killGangs)
}

// TestKilledInTheMiddle binds five hundred pods with isolated CPUs on a hundred nodes, in gangs, and kills the scheduler
// again and again while only some members of a gang are bound. No pod is ever on a node without its CPUs, no CPU is ever
// given twice, the next scheduler completes the gangs in its first session, and in the end every CPU can be given again.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	lab, _ := quietCluster(t)
	lab.Nodes(t, quietNodes(t, "kill", 100)...)
	r := registerOf(t, lab, metav1.NamespaceDefault)
	program, err := binaries.Build(t.Context(), t.Output(), binaries.TuttiScheduler)
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string) *harness.Scheduler {
		args := []string{"--v=2", "--isolated-cpus-without-agents"}
		return lab.Scheduler(t, harness.SchedulerOptions{Name: name, Path: program, Args: args})
	}
	rounds, gangs, torn := kills(t), 0, 0
	var heir *harness.Scheduler
	for round := 0; round < rounds || torn == 0 && round < rounds+moreKills; round++ {
		if heir != nil {
			heir.Kill()
		}
		before := gangs * killGang
		var pods []*corev1.Pod
		for until := max(gangs+5, killGangs*min(round+1, rounds)/rounds); gangs < until; gangs++ {
			name := fmt.Sprintf("gang-%d", gangs)
			lab.Create(t, group(metav1.NamespaceDefault, name, killGang))
			for i := range killGang {
				pods = append(pods, wants(lab, fmt.Sprintf("%s-%d", name, i), "1", harness.InGroup(name)))
			}
		}
		if err := lab.CreatePods(t.Context(), pods...); err != nil {
			t.Fatal(err)
		}
		some := r.on(before + 1 + rand.IntN(len(pods)/2))
		doomed := start(fmt.Sprintf("doomed-%d", round))
		r.wait(t, some)
		doomed.Kill()
		if tornGangs(t, lab) > 0 {
			torn++
		}
		heir = start(fmt.Sprintf("heir-%d", round))
		lab.Eventually(t, func() error { return r.all(gangs * killGang) })
		assertOneSession(t, lab, heir.LogFile())
	}
	t.Logf("%d gangs, %d kills with one of which only some were bound", gangs, torn)
	if torn == 0 {
		t.Error("no kill came in the middle of a gang")
	}
	assertBindConflicts(t, lab)
	assertNothingLeaked(t, lab, r)
}

// tornGangs counts the gangs of which some members are bound and some not.
func tornGangs(t *testing.T, lab *harness.Env) int {
	t.Helper()
	pods, err := lab.Pods(t.Context(), metav1.NamespaceDefault)
	if err != nil {
		t.Fatal(err)
	}
	bound := map[string]int{}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			bound[pods[i].Labels["scheduling.tutti.dev/pod-group"]]++
		}
	}
	torn := 0
	for count := range maps.Values(bound) {
		if count < killGang {
			torn++
		}
	}
	return torn
}

var cycleLine = regexp.MustCompile(`"Cycle" .* nodes=([0-9]+) decided=([0-9]+) `)

// assertOneSession waits for the first session, and wants it to have decided everything. A bind that the killed scheduler had
// sent may be carried out after the next one has read the pod: a later session may decide on those, and on no more.
func assertOneSession(t *testing.T, lab *harness.Env, log string) {
	t.Helper()
	var lines [][][]byte
	lab.Eventually(t, func() error { // with nothing left to decide it may come after all that is awaited
		text, err := os.ReadFile(log)
		if lines = cycleLine.FindAllSubmatch(text, -1); err == nil && len(lines) == 0 {
			err = errors.New("the next scheduler logs no session")
		}
		return err
	})
	later, decided := 0, []int{}
	for i, line := range lines {
		n, err := strconv.Atoi(string(line[2]))
		if err != nil {
			t.Fatal(err)
		}
		if decided = append(decided, n); i > 0 {
			later += n
		}
	}
	if later > killWorkers {
		t.Errorf("the sessions of the next scheduler decided %v, want all but %d in the first", decided, killWorkers)
	}
}

// assertBindConflicts asks the server for binds that are not of the pod as it is, or not the first.
func assertBindConflicts(t *testing.T, lab *harness.Env) {
	pod := wants(lab, "conflict", "1", harness.ScheduledBy("absent"))
	lab.Create(t, pod)
	stale := pod.ResourceVersion
	pod.Labels = map[string]string{"touched": "yes"}
	if err := lab.Client.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	bind := func(uid types.UID, version string) error {
		return lab.Clientset.CoreV1().Pods(pod.Namespace).Bind(t.Context(), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: uid, ResourceVersion: version,
				Annotations: map[string]string{isolcpu.AssignedAnnotation: fmt.Sprintf(
					`{"v":1,"node":"kill-0","uid":%q,"cpus":"15","numa":"0","containers":{"main":"15"},"gen":0}`, pod.UID)}},
			Target: corev1.ObjectReference{Kind: "Node", Name: "kill-0"},
		}, metav1.CreateOptions{})
	}
	for _, c := range []struct {
		what, version string
		uid           types.UID
	}{{"another pod's UID", pod.ResourceVersion, "other"}, {"an old version", stale, pod.UID}} {
		if err := bind(c.uid, c.version); !apierrors.IsConflict(err) {
			t.Errorf("a binding with %s: %v, want a conflict", c.what, err)
		}
	}
	if err := lab.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	var bound corev1.Pod
	if err := lab.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "gang-0-0"}, &bound); err != nil {
		t.Fatal(err)
	}
	pod = &bound
	if err := bind(bound.UID, bound.ResourceVersion); !apierrors.IsConflict(err) {
		t.Errorf("a second binding: %v, want a conflict", err)
	}
}

// assertNothingLeaked lets all pods go, and gives every CPU of every node to other pods.
func assertNothingLeaked(t *testing.T, lab *harness.Env, r *register) {
	err := lab.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(metav1.NamespaceDefault), client.GracePeriodSeconds(0))
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, func() error { return r.all(0) })
	lab.Create(t, group(metav1.NamespaceDefault, "whole", 100))
	var pods []*corev1.Pod
	for i := range 100 {
		pods = append(pods, wants(lab, fmt.Sprintf("whole-%d", i), "8", harness.InGroup("whole")))
	}
	if err := lab.CreatePods(t.Context(), pods...); err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, func() error { return r.all(100) })
}
