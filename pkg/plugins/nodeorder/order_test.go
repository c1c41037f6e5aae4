package nodeorder_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	live "github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// How much TestOrderAsKubeScheduler looks at.
const (
	profiles          = 40
	clustersByProfile = 60
	leastPairs        = 20_000
)

// TestOrderAsKubeScheduler draws configurations and clusters, and holds every score, their weighted sum, and so the order of
// the nodes to what kube-scheduler says, as well as the node that the engine chooses. Both work from the same API objects and
// share nothing else: one through the live state and its view, the other through its own snapshot.
func TestOrderAsKubeScheduler(t *testing.T) {
	ours := newWorld(t, strategy(config.LeastAllocated))
	count := map[string]int{}
	for seed := range uint64(profiles) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := randomProfile(r)
		p.open(t)
		for i := range clustersByProfile {
			if failure := p.compare(t, ours, randomObjects(r), count); failure != "" {
				t.Fatalf("profile %d, cluster %d, weights %+v: %s", seed, i, p.weights, failure)
			}
		}
	}
	t.Log(count)
	if count["pairs"] < leastPairs {
		t.Errorf("%d pairs of pod and node compared, want %d", count["pairs"], leastPairs)
	}
	for _, score := range counterparts() {
		if count[score.ours] < 100 {
			t.Errorf("%s told nodes apart in %d clusters only", score.ours, count[score.ours])
		}
	}
}

func counterparts() []counterpart {
	return []counterpart{
		{"nodeaffinity", "NodeAffinity", 0}, {"tainttoleration", "TaintToleration", 0}, {"imagelocality", "ImageLocality", 0},
		{"podaffinity", "InterPodAffinity", 0}, {"podtopologyspread", "PodTopologySpread", 0},
		{"leastrequested", "NodeResourcesFit", 0}, {"mostrequested", "NodeResourcesFit", 0},
		{"requestedtocapacityratio", "NodeResourcesFit", 0}, {"balancedresource", "NodeResourcesBalancedAllocation", 0},
	}
}

// profile is one configuration in our words and in kube-scheduler's.
type profile struct {
	weights  nodeorder.Weights
	strategy config.ScoringStrategy
	balanced []config.ResourceSpec
	// by is the weights by kube-scheduler's names; what has none is turned off.
	by        map[string]int64
	view      *view
	reference kube.Framework
}

func randomProfile(r *rand.Rand) *profile {
	p := &profile{view: &view{SharedLister: cache.NewEmptySnapshot()}, by: map[string]int64{}}
	weigh := func(theirs string, ours *int64) {
		if *ours = r.Int64N(8); *ours > 0 {
			p.by[theirs] = *ours
		}
	}
	w := &p.weights
	weigh("NodeAffinity", &w.NodeAffinity)
	weigh("TaintToleration", &w.TaintToleration)
	weigh("ImageLocality", &w.ImageLocality)
	weigh("InterPodAffinity", &w.PodAffinity)
	weigh("PodTopologySpread", &w.PodTopologySpread)
	weigh("NodeResourcesBalancedAllocation", &w.BalancedResource)
	p.balanced, w.BalancedResourceResources = randomResources(r, 1)
	var resources nodeorder.Resources
	p.strategy.Resources, resources = randomResources(r, 10)
	switch r.IntN(3) {
	case 0:
		p.strategy.Type, w.LeastRequestedResources = config.LeastAllocated, resources
		weigh("NodeResourcesFit", &w.LeastRequested)
	case 1:
		p.strategy.Type, w.MostRequestedResources = config.MostAllocated, resources
		weigh("NodeResourcesFit", &w.MostRequested)
	default:
		p.strategy.Type, w.RequestedToCapacityRatioResources = config.RequestedToCapacityRatio, resources
		weigh("NodeResourcesFit", &w.RequestedToCapacityRatio)
		p.strategy.RequestedToCapacityRatio = &config.RequestedToCapacityRatioParam{}
		for utilization := int32(r.IntN(30)); utilization <= 100; utilization += 1 + r.Int32N(60) {
			score := r.Int32N(11)
			w.Shape = append(w.Shape, nodeorder.Point{Utilization: int64(utilization), Score: int64(score)})
			p.strategy.RequestedToCapacityRatio.Shape = append(p.strategy.RequestedToCapacityRatio.Shape,
				config.UtilizationShapePoint{Utilization: utilization, Score: score})
		}
	}
	return p
}

// randomResources draws resources to look at, in both words, and has ours read from text.
func randomResources(r *rand.Rand, heaviest int64) ([]config.ResourceSpec, nodeorder.Resources) {
	names := []string{"cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"}
	if r.IntN(2) == 0 {
		names = names[:2]
	}
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	var theirs []config.ResourceSpec
	var text []string
	for _, name := range names[:1+r.IntN(len(names))] {
		weight := 1 + r.Int64N(heaviest)
		theirs = append(theirs, config.ResourceSpec{Name: name, Weight: weight})
		text = append(text, fmt.Sprintf("%s=%d", name, weight))
	}
	ours, err := nodeorder.ParseResources(strings.Join(text, ","))
	if err != nil {
		panic(err)
	}
	return theirs, ours
}

// open builds kube-scheduler's framework for the profile.
func (p *profile) open(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	kubeProfile := defaults.Profiles[0]
	kept := kubeProfile.Plugins.MultiPoint.Enabled[:0]
	for _, plugin := range kubeProfile.Plugins.MultiPoint.Enabled {
		weight := p.by[plugin.Name]
		if plugin.Name == "PrioritySort" || plugin.Name == "DefaultBinder" || weight > 0 {
			kept = append(kept, config.Plugin{Name: plugin.Name, Weight: int32(weight)})
		}
	}
	kubeProfile.Plugins.MultiPoint.Enabled = kept
	for _, plugin := range kubeProfile.PluginConfig {
		switch args := plugin.Args.(type) {
		case *config.PodTopologySpreadArgs:
			args.DefaultingType = config.ListDefaulting
		case *config.NodeResourcesFitArgs:
			args.ScoringStrategy = &p.strategy
		case *config.NodeResourcesBalancedAllocationArgs:
			args.Resources = p.balanced
		}
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := assumecache.NewAssumeCache(klog.Background(), factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	p.reference, err = kuberuntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &kubeProfile,
		kuberuntime.WithClientSet(client), kuberuntime.WithSnapshotSharedLister(p.view), kuberuntime.WithInformerFactory(factory),
		kuberuntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, nil, factory)))
	if err != nil {
		t.Fatal(err)
	}
}

// totals returns kube-scheduler's scores of the nodes by plugin, 0 to 100, and their weighted sums.
func (p *profile) totals(t *testing.T, o *objects) (map[string][]int64, []int64) {
	t.Helper()
	p.view.SharedLister = cache.NewSnapshot(o.pods, o.nodes)
	ctx, state := context.Background(), kube.NewCycleState()
	infos := make([]fwk.NodeInfo, len(o.nodes))
	for i, node := range o.nodes {
		infos[i], _ = p.view.NodeInfos().Get(node.Name)
	}
	if status := p.reference.RunPreScorePlugins(ctx, state, o.incoming, infos); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	all, status := p.reference.RunScorePlugins(ctx, state, o.incoming, infos)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	scores, sums := map[string][]int64{}, make([]int64, len(all))
	for i := range all {
		sums[i] = all[i].TotalScore
		for _, score := range all[i].Scores {
			if scores[score.Name] == nil {
				scores[score.Name] = make([]int64, len(all))
			}
			scores[score.Name][i] = score.Score / p.by[score.Name]
		}
	}
	return scores, sums
}

// compare returns what differs, empty when nothing does, and counts what it has seen.
func (p *profile) compare(t *testing.T, w *world, o *objects, count map[string]int) string {
	t.Helper()
	if p.by["NodeResourcesFit"] > 0 {
		o.incoming.Spec.Resources = nil // which that score overlooks, see the package's paragraph
	}
	state := o.state()
	w.view.SharedLister = state.View()
	snapshot := state.Snapshot(time.Unix(1, 0))
	task := snapshot.Jobs[0].Tasks[0] // the others are not ours
	theirs, want := p.totals(t, o)
	ours, sums := w.scores(t, p.weights, task, snapshot), make([]int64, len(o.nodes))
	for _, pair := range counterparts() {
		got, known := ours[pair.ours], theirs[pair.theirs]
		if got == nil {
			continue // turned off, or nothing to say, which the sums would tell if it were wrong
		}
		for i := range got {
			sums[i] += p.by[pair.theirs] * got[i]
			if known == nil || got[i] != known[i] {
				return fmt.Sprintf("%s is %v, kube-scheduler's %s is %v", pair.ours, got, pair.theirs, known)
			}
		}
		if slices.Max(got) != slices.Min(got) {
			count[pair.ours]++
		}
	}
	if !slices.Equal(sums, want) {
		return fmt.Sprintf("the weighted sums are %v, kube-scheduler's %v", sums, want)
	}
	count["pairs"] += len(sums)
	return p.compareChoice(t, w, snapshot, task, want, count)
}

// compareChoice asks the engine for the best node and compares it with that of kube-scheduler's sums.
func (p *profile) compareChoice(
	t *testing.T, w *world, snapshot *model.Snapshot, task *model.Task, sums []int64, count map[string]int,
) string {
	t.Helper()
	factory, err := nodeorder.New(w.kube, topology.New(w.kube), p.weights)
	if err != nil {
		t.Fatal(err)
	}
	session := framework.Open(snapshot, &framework.Profile{Tiers: []framework.Tier{{{New: factory}}}}, framework.Options{})
	defer session.Close()
	got, _ := session.Choose(task, model.IdleRoom, nil)
	want := -1
	for i, node := range snapshot.Nodes {
		if node.Lacking(task.Request, model.IdleRoom) < 0 && (want < 0 || sums[i] > sums[want]) {
			want = i
		}
	}
	switch {
	case want < 0 && got == nil:
		return ""
	case want < 0 || got == nil || got != snapshot.Nodes[want]:
		return fmt.Sprintf("the engine chooses %v, kube-scheduler node %d of sums %v", got, want, sums)
	}
	count["choices"]++
	return ""
}

// objects is one cluster and a pod to place.
type objects struct {
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	incoming *corev1.Pod
}

func randomObjects(r *rand.Rand) *objects {
	o := &objects{incoming: richPod(r, "incoming")}
	o.incoming.Spec.SchedulerName = "tutti"
	for i := range 3 + r.IntN(13) {
		node := randomNode(r, fmt.Sprint("n", i))
		node.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		sometimes(r, func() { node.Status.Allocatable[corev1.ResourceEphemeralStorage] = quantity(1+r.Int64N(100), 1<<30) })
		sometimes(r, func() { node.Status.Allocatable["nvidia.com/gpu"] = quantity(r.Int64N(9), 1) })
		sometimes(r, func() { node.Status.Allocatable["hugepages-2Mi"] = quantity(r.Int64N(100), 2<<20) })
		if r.IntN(20) == 0 {
			delete(node.Status.Allocatable, oneOfNames(r, corev1.ResourceCPU, corev1.ResourceMemory))
		}
		for i := range node.Status.Images { // of which all nodes report the same
			node.Status.Images[i].SizeBytes = int64(i+1) * 400 << 20
		}
		for j := range r.IntN(5) {
			pod := richPod(r, fmt.Sprint("p", i, "-", j))
			pod.Spec.NodeName = node.Name
			o.pods = append(o.pods, pod)
		}
		o.nodes = append(o.nodes, node)
	}
	slices.SortFunc(o.nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return o
}

// state is the live state after it has seen the objects.
func (o *objects) state() *live.State {
	state := live.New(live.Options{SchedulerNames: []string{"tutti"}})
	for _, node := range o.nodes {
		state.Apply(live.Event{Kind: live.KindNode, Node: node})
	}
	for _, pod := range append(slices.Clone(o.pods), o.incoming) {
		state.Apply(live.Event{Kind: live.KindPod, Pod: pod})
	}
	return state
}

// richPod is a random pod with containers of all kinds, some of which do not say what they need.
func richPod(r *rand.Rand, name string) *corev1.Pod {
	pod := randomPod(r, name)
	image := pod.Spec.Containers[0].Image
	pod.Spec.Containers = nil
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, richContainer(r, fmt.Sprint("main", i), image))
	}
	always := corev1.ContainerRestartPolicyAlways
	for i := range r.IntN(3) {
		container := richContainer(r, fmt.Sprint("init", i), image)
		sometimes(r, func() { container.RestartPolicy = &always })
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	if r.IntN(6) == 0 {
		pod.Spec.Overhead = requests(r.Int64N(300), r.Int64N(1<<28))
	}
	if r.IntN(6) == 0 { // the API server fills in what the pod as a whole does not say
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: requests(r.Int64N(3000), r.Int64N(3<<30))}
	}
	return pod
}

func richContainer(r *rand.Rand, name, image string) corev1.Container {
	list := corev1.ResourceList{}
	sometimes(r, func() { list[corev1.ResourceCPU] = *resource.NewMilliQuantity(r.Int64N(1500), resource.DecimalSI) })
	sometimes(r, func() { list[corev1.ResourceMemory] = quantity(r.Int64N(2<<30), 1) })
	sometimes(r, func() { list[corev1.ResourceEphemeralStorage] = quantity(r.Int64N(9), 1<<30) })
	if r.IntN(4) == 0 {
		list["nvidia.com/gpu"] = quantity(r.Int64N(3), 1)
		list["hugepages-2Mi"] = quantity(r.Int64N(9), 2<<20)
	}
	return corev1.Container{Name: name, Image: image, Resources: corev1.ResourceRequirements{Requests: list}}
}

func sometimes(r *rand.Rand, do func()) {
	if r.IntN(2) == 0 {
		do()
	}
}

func quantity(amount, unit int64) resource.Quantity {
	return *resource.NewQuantity(amount*unit, resource.BinarySI)
}

func oneOfNames(r *rand.Rand, names ...corev1.ResourceName) corev1.ResourceName {
	return names[r.IntN(len(names))]
}
