package inprocess

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// world is a workload's cluster as a scheduler's process has it in memory.
type world struct {
	workload Workload
	state    *cluster.State
	profile  *engine.Profile
	// cache is handed on from cycle to cycle, as the loop does, until other pods arrive.
	cache    *engine.Cache
	pending  Batch
	nodes    []*corev1.Node
	existing Batch
	now      time.Time
	serial   int
	// evicted are the pods that a cycle decided to evict, which they are spared afterwards.
	evicted []types.UID
	// visitor is a pod of another scheduler that is on the first node; nil when it is not.
	visitor *corev1.Pod
	kube    *kube.Plugins
	stop    func()
}

// newWorld fills a state with nodes and the pods on them. What waits is not there yet.
func newWorld(workload Workload) (*world, error) {
	objects := workload.Objects()
	w := &world{
		workload: workload,
		state:    cluster.New(cluster.Options{SchedulerNames: []string{harness.SchedulerName}}),
		pending:  objects.Pending, nodes: objects.Nodes, existing: objects.Existing,
		now: epoch.Add(24 * time.Hour), serial: 10_000_000,
	}
	devices, err := w.open(objects.Devices.objects())
	if err != nil {
		return nil, err
	}
	for i, node := range w.nodes {
		w.nodes[i] = cluster.StripNode(node)
		w.state.Apply(&cluster.NodeSeen{Node: w.nodes[i]})
	}
	w.tellClaims(objects.Devices)
	for _, of := range devices {
		w.state.Apply(&cluster.DevicesSeen{Devices: of})
	}
	for _, queue := range objects.Queues {
		w.state.Apply(&cluster.QueueSeen{Queue: queue})
	}
	if source := workload.Source; source != model.SourcePodGroup {
		w.state.Apply(&cluster.ReadingChanged{Source: source, Reading: cluster.IsRead})
	}
	w.strip(objects.Existing.Pods)
	w.strip(objects.Pending.Pods)
	w.apply(objects.Existing, false)
	w.state.Snapshot(w.now)
	return w, nil
}

func (w *world) strip(pods []*corev1.Pod) {
	for i, pod := range pods {
		pods[i] = cluster.StripPod(pod)
	}
}

// open builds kube-scheduler's plugins over an API server that holds the namespace and the objects, and the built-in profile. It
// returns the devices of nodes.
func (w *world) open(objects []runtime.Object) (devices []*kube.NodeDevices, err error) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for _, object := range objects {
		if err := client.Tracker().Add(object); err != nil {
			return nil, fmt.Errorf("devices: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	w.stop = func() {
		cancel()
		factory.Shutdown()
	}
	kubePlugins, err := kube.New(ctx, kube.Deps{Lister: w.state.View(), Informers: factory, Client: client})
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's plugins: %w", err)
	}
	w.kube = kubePlugins
	var mu sync.Mutex
	if err := kubePlugins.WatchDevices(func(of *kube.NodeDevices) {
		mu.Lock()
		defer mu.Unlock()
		devices = append(devices, of)
	}); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), kubePlugins.HasSynced) {
		return nil, errors.New("kube-scheduler's plugins did not sync")
	}
	catalogue := engine.Registry{Actions: actions.BuiltIn(), Plugins: plugins.BuiltIn(kubePlugins)}
	configuration, _, err := config.Decode("built-in", config.DefaultYAML(), catalogue.Names())
	if err != nil {
		return nil, fmt.Errorf("built-in configuration: %w", err)
	}
	w.workload.Topology.declare(configuration)
	if w.profile, err = catalogue.Build(configuration); err != nil {
		return nil, fmt.Errorf("built-in profile: %w", err)
	}
	return devices, nil
}

// apply tells the state of groups and pods, or that they are gone.
func (w *world) apply(b Batch, deleted bool) {
	for _, group := range b.Groups {
		w.state.Apply(&cluster.GroupSeen{Group: group, Gone: deleted})
	}
	for _, spec := range b.Foreign {
		w.state.Apply(&cluster.ForeignSeen{Spec: spec, Gone: deleted})
	}
	for _, pod := range b.Pods {
		w.state.Apply(&cluster.PodSeen{Pod: pod, Gone: deleted})
	}
}

// arrive lets what waits come to be, to a scheduler that remembers nothing.
func (w *world) arrive() {
	w.cache = &engine.Cache{}
	w.come()
}

// come lets what waits come to be, to a scheduler that remembers what it does.
func (w *world) come() {
	w.renewPending()
	w.apply(w.pending, false)
}

// renewPending makes what waits others of the same names: a UID does not come back.
func (w *world) renewPending() {
	for i, group := range w.pending.Groups {
		next := *group
		w.reset(&next.ObjectMeta)
		w.pending.Groups[i] = &next
	}
	for i, spec := range w.pending.Foreign {
		next := *spec
		w.reset(&next.ObjectMeta)
		w.pending.Foreign[i] = &next
	}
	for i, pod := range w.pending.Pods {
		next := *pod
		w.reset(&next.ObjectMeta)
		w.pending.Pods[i] = &next
	}
}

// leave takes what waits, and where it was put, away again.
func (w *world) leave() {
	w.apply(w.pending, true)
	for _, pod := range w.pending.Pods {
		w.kube.Unreserve(pod.UID)
	}
	for _, pod := range w.evicted {
		w.state.ForgetEviction(pod)
	}
	w.evicted = w.evicted[:0]
	w.state.Snapshot(w.now)
}

// reset makes an object another one of the same name.
func (w *world) reset(meta *metav1.ObjectMeta) {
	w.change(meta)
	meta.UID = types.UID(strconv.Itoa(w.serial))
}

// change gives an object the version of a new event.
func (w *world) change(meta *metav1.ObjectMeta) {
	w.serial++
	meta.ResourceVersion = strconv.Itoa(w.serial)
}

// churn tells of one in so many nodes and pods on nodes, each with a changed label, which is not the others'.
func (w *world) churn(oneIn int) {
	for i := 0; i < len(w.nodes); i += oneIn {
		node := *w.nodes[i]
		node.Labels = relabel(node.Labels, w.serial)
		w.change(&node.ObjectMeta)
		w.nodes[i] = &node
		w.state.Apply(&cluster.NodeSeen{Node: &node})
	}
	for i := 0; i < len(w.existing.Pods); i += oneIn {
		pod := *w.existing.Pods[i]
		pod.Labels = relabel(pod.Labels, w.serial)
		w.change(&pod.ObjectMeta)
		w.existing.Pods[i] = &pod
		w.state.Apply(&cluster.PodSeen{Pod: &pod})
	}
}

// visit tells of a pod of another scheduler that has come to the first node, or has gone from it, in turns.
func (w *world) visit() {
	pod := w.visitor
	if pod != nil {
		w.visitor = nil
		w.state.Apply(&cluster.PodSeen{Pod: pod, Gone: true})
		return
	}
	pod = w.pending.Pods[0].DeepCopy()
	w.reset(&pod.ObjectMeta)
	pod.Name, pod.Labels, pod.Spec.SchedulerName = "visitor", nil, corev1.DefaultSchedulerName
	pod.Spec.NodeName, pod.Status.Phase = w.nodes[0].Name, corev1.PodRunning
	pod.Spec.Containers[0].Resources.Requests = small()
	w.visitor = pod
	w.state.Apply(&cluster.PodSeen{Pod: pod})
}

// touch tells of a changed label of the first pod that waits.
func (w *world) touch() {
	pod := *w.pending.Pods[0]
	pod.Labels = relabel(pod.Labels, w.serial)
	w.change(&pod.ObjectMeta)
	w.pending.Pods[0] = &pod
	w.state.Apply(&cluster.PodSeen{Pod: &pod})
}

func relabel(labels map[string]string, value int) map[string]string {
	labels = maps.Clone(labels)
	labels["changed"] = strconv.Itoa(value)
	return labels
}

// cycle is what one came to.
type cycle struct {
	snapshot, session time.Duration
	binds, waiting    int
}

func (c cycle) took() time.Duration { return c.snapshot + c.session }

// run is one cycle, as the loop runs it.
func (w *world) run() cycle {
	var c cycle
	start := time.Now()
	snapshot := w.state.Snapshot(w.now)
	c.snapshot = time.Since(start)
	result := engine.Run(snapshot, w.profile, engine.Options{
		Cache: w.cache,
		Decide: func(decision model.Decision) {
			w.state.Assume(decision)
			c.binds += len(decision.Binds)
			for _, eviction := range decision.Evictions {
				w.evicted = append(w.evicted, eviction.Pod.UID)
			}
		},
	})
	c.session = time.Since(start) - c.snapshot
	w.state.TakeForeignNews() // as each report does
	c.waiting = len(result.Refusals)
	if w.workload.Kind.evicts() {
		c.binds = nominated(snapshot, result.Refusals)
	}
	return c
}

// nominated counts the members of gangs that start as soon as others have gone, be it that these were evicted for another one.
func nominated(snapshot *model.Snapshot, refusals map[model.JobKey]*model.Refusal) (members int) {
	for key, refusal := range refusals {
		if refusal.Code == model.WaitingForVictims {
			members += int(snapshot.Job(key).MinMember)
		}
	}
	return members
}

// look brings the snapshot up to date and does nothing with it.
func (w *world) look() cycle {
	start := time.Now()
	w.state.Snapshot(w.now)
	return cycle{snapshot: time.Since(start)}
}
