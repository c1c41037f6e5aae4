package nodeorder_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kubeframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// view is a lister whose content a test replaces.
type view struct{ fwk.SharedLister }

// world is kube-scheduler's plugins over a view, and a kube-scheduler framework over the same. They share nothing else but the
// objects of the API server.
type world struct {
	view      *view
	kube      *kube.Plugins
	index     *topology.Index
	filters   framework.Factory
	reference kubeframework.Framework
}

// newWorld builds both. The reference scores with the given strategy for resources.
func newWorld(t testing.TB, strategy *config.ScoringStrategy) *world {
	t.Helper()
	return newWorldOf(t, func(profile *config.KubeSchedulerProfile) {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*config.NodeResourcesFitArgs); ok {
				args.ScoringStrategy = strategy
			}
		}
	})
}

// newWorldOf builds both over the objects, and lets the profile of the reference be changed.
func newWorldOf(t testing.TB, change func(*config.KubeSchedulerProfile), objects ...runtime.Object) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{view: &view{SharedLister: cache.NewEmptySnapshot()}}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	var err error
	w.kube, err = kube.New(ctx, kube.Deps{Lister: w.view, Informers: factory, Client: client})
	if err != nil {
		t.Fatal(err)
	}
	w.index = topology.New(w.kube)
	if w.filters, err = predicates.New(w.kube, w.index); err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !clientcache.WaitForCacheSync(ctx.Done(), w.kube.HasSynced) {
		t.Fatal("the plugins did not sync")
	}
	w.reference = newReference(t, client, w.view, change)
	return w
}

// newReference builds kube-scheduler's framework with its default profile, except for preemption, and with informers of its
// own.
func newReference(
	t testing.TB, client *fake.Clientset, lister fwk.SharedLister, change func(*config.KubeSchedulerProfile),
) kubeframework.Framework {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	all := &profile.Plugins.MultiPoint
	all.Enabled = slices.DeleteFunc(all.Enabled, func(p config.Plugin) bool { return p.Name == "DefaultPreemption" })
	for _, plugin := range profile.PluginConfig {
		if args, ok := plugin.Args.(*config.PodTopologySpreadArgs); ok {
			args.DefaultingType = config.ListDefaulting
		}
	}
	change(&profile)
	factory := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	resources := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.Background(), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	devices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: resources.ResourceSlices()})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := kuberuntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		kuberuntime.WithClientSet(client), kuberuntime.WithInformerFactory(factory), kuberuntime.WithSnapshotSharedLister(lister),
		kuberuntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, devices, factory)),
		kuberuntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	handled := claims.AddEventHandler(clientcache.ResourceEventHandlerFuncs{})
	if !clientcache.WaitForCacheSync(ctx.Done(), handled.HasSynced) {
		t.Fatal("the reference did not sync")
	}
	return reference
}

// theirs returns kube-scheduler's scores of the nodes, 0 to 100, by plugin.
func (w *world) theirs(t *testing.T, pod *corev1.Pod, nodes []*corev1.Node) map[string][]int64 {
	t.Helper()
	ctx, state := context.Background(), kubeframework.NewCycleState()
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, node := range nodes {
		info, err := w.view.NodeInfos().Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		infos[i] = info
	}
	if _, status, _ := w.reference.RunPreFilterPlugins(ctx, state, pod); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	if status := w.reference.RunPreScorePlugins(ctx, state, pod, infos); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	all, status := w.reference.RunScorePlugins(ctx, state, pod, infos)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	scores := map[string][]int64{}
	weights := nodeWeights()
	for i, node := range all {
		for _, score := range node.Scores {
			if scores[score.Name] == nil {
				scores[score.Name] = make([]int64, len(nodes))
			}
			scores[score.Name][i] = score.Score / weights[score.Name]
		}
	}
	return scores
}

func nodeWeights() map[string]int64 {
	return map[string]int64{
		"TaintToleration": 3, "NodeAffinity": 2, "InterPodAffinity": 2, "PodTopologySpread": 2, "ImageLocality": 1,
		"NodeResourcesFit": 1, "NodeResourcesBalancedAllocation": 1, "DynamicResources": 2, "VolumeBinding": 1,
	}
}

// ours returns the plugin's scores of the nodes, 0 to 100, by score; a score that does not apply is missing. The scores of
// resources, which the plugin sums up, are computed one by one.
func (w *world) ours(t testing.TB, weights nodeorder.Weights, task *model.Task, nodes []*model.Node) map[string][]int64 {
	t.Helper()
	return w.scores(t, weights, task, &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: nodes})
}

// scores are ours over the nodes of a snapshot.
func (w *world) scores(
	t testing.TB, weights nodeorder.Weights, task *model.Task, snapshot *model.Snapshot,
) map[string][]int64 {
	t.Helper()
	scores, nodes := map[string][]int64{}, snapshot.Nodes
	for name, alone := range oneByOne(weights) {
		plugin := w.plugin(t, alone, snapshot)
		w.askFilters(task, snapshot)
		for _, scope := range []framework.FilterScope{framework.NodeOnly, framework.NodeWithPods, framework.ClusterWide} {
			for _, score := range plugin.PreScore(task, scope, nodes) {
				raw := make([]int64, len(nodes))
				for i, node := range nodes {
					raw[i] = score.Score(node)
				}
				if scope != framework.NodeWithPods {
					name = score.Name
				}
				scores[name] = normalized(raw, score.Normalization)
			}
		}
	}
	return scores
}

// fixedView is the view of a snapshot that no session changes.
type fixedView struct {
	framework.View
	snapshot *model.Snapshot
}

func (v fixedView) Snapshot() *model.Snapshot { return v.snapshot }

// askFilters runs the filters whose state scores use.
func (w *world) askFilters(task *model.Task, snapshot *model.Snapshot) {
	plugin := w.filters()
	plugin.(framework.SessionOpener).OpenSession(fixedView{snapshot: snapshot})
	plugin.(framework.NodeFilter).PreFilter(task, framework.ClusterWide)
}

// oneByOne splits weights: each of resources alone, by its name, with weight 1, and the others together.
func oneByOne(weights nodeorder.Weights) map[string]nodeorder.Weights {
	none := weights
	none.LeastRequested, none.MostRequested, none.RequestedToCapacityRatio, none.BalancedResource = 0, 0, 0, 0
	split := map[string]nodeorder.Weights{"the others": none}
	only := func(name string, weight int64, set func(*nodeorder.Weights)) {
		if weight == 0 {
			return
		}
		alone := nodeorder.Weights{
			Shape:                   weights.Shape,
			LeastRequestedResources: weights.LeastRequestedResources, MostRequestedResources: weights.MostRequestedResources,
			RequestedToCapacityRatioResources: weights.RequestedToCapacityRatioResources,
			BalancedResourceResources:         weights.BalancedResourceResources,
		}
		set(&alone)
		split[name] = alone
	}
	only("leastrequested", weights.LeastRequested, func(w *nodeorder.Weights) { w.LeastRequested = 1 })
	only("mostrequested", weights.MostRequested, func(w *nodeorder.Weights) { w.MostRequested = 1 })
	only("requestedtocapacityratio", weights.RequestedToCapacityRatio, func(w *nodeorder.Weights) { w.RequestedToCapacityRatio = 1 })
	only("balancedresource", weights.BalancedResource, func(w *nodeorder.Weights) { w.BalancedResource = 1 })
	return split
}

// plugin returns the plugin of a session over the snapshot.
func (w *world) plugin(t testing.TB, weights nodeorder.Weights, snapshot *model.Snapshot) framework.NodeScorer {
	t.Helper()
	newPlugin, err := nodeorder.New(w.kube, w.index, weights)
	if err != nil {
		t.Fatal(err)
	}
	plugin := newPlugin()
	plugin.(framework.SessionOpener).OpenSession(fixedView{snapshot: snapshot})
	return plugin.(framework.NodeScorer)
}

// normalized follows the documentation of framework.Normalization.
func normalized(raw []int64, how framework.Normalization) []int64 {
	low, high := slices.Min(raw), slices.Max(raw)
	for i, score := range raw {
		switch {
		case how == framework.NormalizeByMax && high > 0:
			raw[i] = 100 * score / high
		case how == framework.NormalizeReversed && high > 0:
			raw[i] = 100 - 100*score/high
		case how == framework.NormalizeReversed:
			raw[i] = 100
		case how == framework.NormalizeMinMax && high == low:
			raw[i] = 0
		case how == framework.NormalizeMinMax:
			raw[i] = int64(100 * (float64(score-low) / float64(high-low)))
		}
	}
	return raw
}

// cluster is random nodes and pods, in kube-scheduler's types and in ours.
type cluster struct {
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	models []*model.Node
}

func randomCluster(r *rand.Rand) cluster {
	var c cluster
	for i := range 3 + r.IntN(5) {
		node := randomNode(r, fmt.Sprint("n", i))
		allocatable := vectorOf(node.Status.Allocatable)
		ours := model.NewNode(node.Name, node, allocatable)
		for j := range r.IntN(4) {
			pod := randomPod(r, fmt.Sprint("p", i, "-", j))
			pod.Spec.NodeName = node.Name
			task := taskOf(pod)
			task.Placement = model.Placement{Status: model.Running, Node: node.Name}
			ours.Place(task)
			c.pods = append(c.pods, pod)
		}
		c.nodes, c.models = append(c.nodes, node), append(c.models, ours)
	}
	return c
}

func randomNode(r *rand.Rand, name string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprint("z", r.IntN(3)), "disk": oneOf(r, "ssd", "hdd"),
		}},
		Status: corev1.NodeStatus{Allocatable: requests(4000+r.Int64N(4000), (4+r.Int64N(12))<<30)},
	}
	if r.IntN(8) == 0 {
		delete(node.Labels, corev1.LabelTopologyZone)
	}
	for i := range r.IntN(3) {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: fmt.Sprint("t", i), Value: oneOf(r, "0", "1"), Effect: corev1.TaintEffectPreferNoSchedule,
		})
	}
	for i := range r.IntN(3) {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprint("image", i, ":latest")}, SizeBytes: r.Int64N(900 << 20),
		})
	}
	return node
}

func randomPod(r *rand.Rand, name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": oneOf(r, "x", "y", "z")},
		},
		Spec: corev1.PodSpec{Affinity: randomAffinity(r), Containers: []corev1.Container{{
			Name: "main", Image: oneOf(r, "image0", "image1", "none"),
			Resources: corev1.ResourceRequirements{Requests: requests(1+r.Int64N(3000), 1+r.Int64N(5<<30))},
		}}},
	}
	if r.IntN(3) == 0 {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "t0", Operator: corev1.TolerationOpEqual, Value: oneOf(r, "0", "1")}}
	}
	for range r.IntN(3) {
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1 + r.Int32N(3), TopologyKey: randomKey(r), WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: randomSelector(r),
		})
	}
	return pod
}

func randomAffinity(r *rand.Rand) *corev1.Affinity {
	affinity := &corev1.Affinity{}
	for range r.IntN(3) {
		if affinity.NodeAffinity == nil {
			affinity.NodeAffinity = &corev1.NodeAffinity{}
		}
		terms := &affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, corev1.PreferredSchedulingTerm{Weight: 1 + r.Int32N(100), Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{oneOf(r, "ssd", "hdd")},
			}},
		}})
	}
	if r.IntN(3) == 0 {
		affinity.PodAffinity = &corev1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{randomTerm(r)},
		}
	}
	if r.IntN(3) == 0 {
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{randomTerm(r)},
		}
	}
	return affinity
}

func randomTerm(r *rand.Rand) corev1.WeightedPodAffinityTerm {
	return corev1.WeightedPodAffinityTerm{
		Weight:          1 + r.Int32N(100),
		PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: randomSelector(r), TopologyKey: randomKey(r)},
	}
}

func randomSelector(r *rand.Rand) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": oneOf(r, "x", "y", "z")}}
}

func randomKey(r *rand.Rand) string { return oneOf(r, corev1.LabelHostname, corev1.LabelTopologyZone) }

func oneOf(r *rand.Rand, choices ...string) string { return choices[r.IntN(len(choices))] }

func requests(cpu, memory int64) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(cpu, resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
	}
}

func taskOf(pod *corev1.Pod) *model.Task {
	return &model.Task{
		PodRef: model.PodRef{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name}, Pod: pod,
		Request: vectorOf(pod.Spec.Containers[0].Resources.Requests),
	}
}

func vectorOf(list corev1.ResourceList) model.Resources {
	return vector(list.Cpu().MilliValue(), list.Memory().Value())
}
