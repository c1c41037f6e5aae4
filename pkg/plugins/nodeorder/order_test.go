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
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"

	live "github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
)

// The amount of work of TestOrderAsKubeScheduler.
const (
	profiles          = 40
	clustersByProfile = 60
	leastPairs        = 20_000
)

// TestOrderAsKubeScheduler draws configurations and clusters, and compares every score, their weighted sum, the order of the
// nodes and the engine's choice with kube-scheduler's. Both work from the same API objects and share nothing else: one
// through the cluster state and its view, the other through its own snapshot.
func TestOrderAsKubeScheduler(t *testing.T) {
	count := map[string]int{}
	for seed := range uint64(profiles) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := randomProfile(r)
		p.world = newWorldOf(t, p.apply, randomClaims(r)...)
		for i := range clustersByProfile {
			if failure := p.compare(t, randomObjects(r), count); failure != "" {
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
			t.Errorf("%s differed between nodes in %d clusters only", score.ours, count[score.ours])
		}
	}
}

func counterparts() []counterpart {
	return []counterpart{
		{"nodeaffinity", "NodeAffinity", 0}, {"tainttoleration", "TaintToleration", 0}, {"imagelocality", "ImageLocality", 0},
		{"podaffinity", "InterPodAffinity", 0}, {"podtopologyspread", "PodTopologySpread", 0},
		{"leastrequested", "NodeResourcesFit", 0}, {"mostrequested", "NodeResourcesFit", 0},
		{"requestedtocapacityratio", "NodeResourcesFit", 0}, {"balancedresource", "NodeResourcesBalancedAllocation", 0},
		{"dynamicresources", "DynamicResources", 0}, {"volumebinding", "VolumeBinding", 0},
	}
}

// profile is one configuration in our format and in kube-scheduler's.
type profile struct {
	weights  nodeorder.Weights
	strategy config.ScoringStrategy
	balanced []config.ResourceSpec
	// by is the weights by kube-scheduler's names; a missing one is turned off.
	by map[string]int64
	*world
}

func randomProfile(r *rand.Rand) *profile {
	p := &profile{by: map[string]int64{}}
	weigh := func(theirs string, ours *int64) {
		*ours = r.Int64N(8)
		p.by[theirs] = *ours
	}
	w := &p.weights
	weigh("NodeAffinity", &w.NodeAffinity)
	weigh("TaintToleration", &w.TaintToleration)
	weigh("ImageLocality", &w.ImageLocality)
	weigh("InterPodAffinity", &w.PodAffinity)
	weigh("PodTopologySpread", &w.PodTopologySpread)
	weigh("DynamicResources", &w.DynamicResources)
	weigh("VolumeBinding", &w.VolumeBinding)
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

// randomResources draws resources to score, in both formats, and parses ours from text.
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

// apply writes it into kube-scheduler's default profile without removing anything: a score without a weight of ours keeps its
// own, so that a difference shows.
func (p *profile) apply(theirs *config.KubeSchedulerProfile) {
	for i := range theirs.Plugins.MultiPoint.Enabled {
		plugin := &theirs.Plugins.MultiPoint.Enabled[i]
		switch weight, weighed := p.by[plugin.Name]; {
		case weight > 0:
			plugin.Weight = int32(weight)
		case weighed:
			theirs.Plugins.Score.Disabled = append(theirs.Plugins.Score.Disabled, config.Plugin{Name: plugin.Name})
		}
	}
	for _, plugin := range theirs.PluginConfig {
		switch args := plugin.Args.(type) {
		case *config.NodeResourcesFitArgs:
			args.ScoringStrategy = &p.strategy
		case *config.NodeResourcesBalancedAllocationArgs:
			args.Resources = p.balanced
		}
	}
}

// opinion is kube-scheduler's result for all nodes.
type opinion struct {
	// scores are by plugin, 0 to 100, and sums their weighted sums.
	scores map[string][]int64
	sums   []int64
	state  fwk.CycleState
}

// askThem gets kube-scheduler's scores of all nodes with the storage and devices that the pod claims; the others are removed
// from the cluster, since kube-scheduler scores only feasible nodes, and bounds would differ. No other filter is run. It
// returns nil when no node is left.
func (p *profile) askThem(t *testing.T, o *objects, pod *corev1.Pod) *opinion {
	t.Helper()
	p.view.SharedLister = cache.NewSnapshot(o.pods, o.nodes)
	ctx, says := context.Background(), &opinion{scores: map[string][]int64{}, state: kube.NewCycleState()}
	if _, status, _ := p.reference.RunPreFilterPlugins(ctx, says.state, pod); !status.IsSuccess() {
		return nil
	}
	skipped := says.state.GetSkipFilterPlugins()
	for _, filter := range p.reference.ListPlugins().Filter.Enabled {
		if filter.Name != "VolumeBinding" && filter.Name != "DynamicResources" {
			skipped = skipped.Union(sets.New(filter.Name))
		}
	}
	says.state.SetSkipFilterPlugins(skipped)
	var infos []fwk.NodeInfo
	impossible := sets.New[string]()
	for _, node := range o.nodes {
		info, _ := p.view.NodeInfos().Get(node.Name)
		if p.reference.RunFilterPlugins(ctx, says.state, pod, info).IsSuccess() {
			infos = append(infos, info)
		} else {
			impossible.Insert(node.Name)
		}
	}
	switch {
	case len(infos) == 0:
		return nil
	case len(impossible) > 0:
		o.lose(impossible)
		return p.askThem(t, o, pod)
	}
	if status := p.reference.RunPreScorePlugins(ctx, says.state, pod, infos); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	all, status := p.reference.RunScorePlugins(ctx, says.state, pod, infos)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	says.sums = make([]int64, len(all))
	for i := range all {
		says.sums[i] = all[i].TotalScore
		for _, score := range all[i].Scores {
			if says.scores[score.Name] == nil {
				says.scores[score.Name] = make([]int64, len(all))
			}
			says.scores[score.Name][i] = score.Score / max(1, p.by[score.Name])
		}
	}
	return says
}

// compare returns the differences, empty when there are none, and counts what it has compared. Then it places the pod and
// continues with the next, as for members of a gang.
func (p *profile) compare(t *testing.T, o *objects, count map[string]int) string {
	t.Helper()
	for _, pod := range o.incoming {
		if p.by["NodeResourcesFit"] > 0 {
			pod.Spec.Resources = nil // which that score ignores, see the package's comment
		}
	}
	for i, pod := range o.incoming {
		says := p.askThem(t, o, pod)
		if says == nil {
			count["impossible"]++
			return ""
		}
		state := o.state()
		p.view.SharedLister = state.View()
		snapshot := state.Snapshot(time.Unix(1, 0))
		task := snapshot.Job(model.JobKey{Namespace: pod.Namespace, Name: pod.Name, Source: model.SourcePod}).Tasks[0]
		if failure := p.compareScores(t, snapshot, task, says, count); failure != "" {
			return fmt.Sprintf("pod %d: %s", i, failure)
		}
		best, failure := p.compareChoice(t, snapshot, task, says, count)
		if best < 0 {
			return failure
		}
		defer p.place(t, pod, o.nodes[best], says)()
	}
	return ""
}

// place reserves on both sides what the pod gets on the node, and returns a function that undoes it.
func (p *profile) place(t *testing.T, pod *corev1.Pod, node *corev1.Node, says *opinion) (takeBack func()) {
	t.Helper()
	if _, status := p.kube.Reserve(t.Context(), pod, node, nil); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	ctx := context.Background()
	if status := p.reference.RunReservePluginsReserve(ctx, says.state, pod, node.Name); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	return func() {
		p.kube.Unreserve(pod.UID)
		p.reference.RunReservePluginsUnreserve(ctx, says.state, pod, node.Name)
	}
}

func (p *profile) compareScores(
	t *testing.T, snapshot *model.Snapshot, task *model.Task, says *opinion, count map[string]int,
) string {
	t.Helper()
	ours, sums := p.world.scores(t, p.weights, task, snapshot), make([]int64, len(says.sums))
	for _, pair := range counterparts() {
		got, known := ours[pair.ours], says.scores[pair.theirs]
		if got == nil {
			continue // turned off or not applicable; an error would show in the sums
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
	if !slices.Equal(sums, says.sums) {
		return fmt.Sprintf("the weighted sums are %v, kube-scheduler's %v", sums, says.sums)
	}
	count["pairs"] += len(sums)
	return ""
}

// compareChoice compares the engine's best node with that of kube-scheduler's sums. It returns its position, negative when
// there is none or they differ.
func (p *profile) compareChoice(
	t *testing.T, snapshot *model.Snapshot, task *model.Task, says *opinion, count map[string]int,
) (best int, failure string) {
	t.Helper()
	scores, err := nodeorder.New(p.kube, p.index, p.weights)
	if err != nil {
		t.Fatal(err)
	}
	tiers := []engine.Tier{{{Factory: p.filters}, {Factory: scores}}}
	session := engine.Open(snapshot, &engine.Profile{Tiers: tiers}, engine.Options{})
	defer session.Close()
	got := session.Ask(session.Snapshot.Job(task.Job), model.Idle).Best(task, nil)
	best = -1
	for i, node := range snapshot.Nodes {
		if node.Free(model.Idle).Fits(task.Request) && (best < 0 || says.sums[i] > says.sums[best]) {
			best = i
		}
	}
	switch {
	case best < 0 && got == nil:
		return -1, ""
	case best < 0 || got == nil || got != snapshot.Nodes[best]:
		return -1, fmt.Sprintf("the engine chooses %v, kube-scheduler node %d of sums %v", got, best, says.sums)
	}
	count["choices"]++
	return best, ""
}

// objects is one cluster and two pods to place.
type objects struct {
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	incoming []*corev1.Pod
}

func randomObjects(r *rand.Rand) *objects {
	o := &objects{}
	for i := range 2 {
		pod := richPod(r, fmt.Sprint("incoming-", i))
		pod.Spec.SchedulerName = "tutti"
		sometimes(r, func() { claim(r, pod) })
		o.incoming = append(o.incoming, pod)
	}
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

// lose removes nodes from the cluster, with their pods.
func (o *objects) lose(names sets.Set[string]) {
	o.nodes = slices.DeleteFunc(o.nodes, func(n *corev1.Node) bool { return names.Has(n.Name) })
	o.pods = slices.DeleteFunc(o.pods, func(p *corev1.Pod) bool { return names.Has(p.Spec.NodeName) })
}

// state is the cluster state after it has seen the objects.
func (o *objects) state() *live.State {
	state := live.New(live.Options{SchedulerNames: []string{"tutti"}})
	for _, node := range o.nodes {
		state.Apply(&live.NodeSeen{Node: node})
	}
	for _, pod := range slices.Concat(o.pods, o.incoming) {
		state.Apply(&live.PodSeen{Pod: pod})
	}
	return state
}

// richPod is a random pod with containers of all kinds, some of them without requests.
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
	if r.IntN(6) == 0 { // the API server defaults the pod-level fields that are missing
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
