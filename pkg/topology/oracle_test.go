package topology_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	kubecache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// view is a lister whose content a test replaces.
type view struct{ fwk.SharedLister }

// oracle is kube-scheduler's own plugins.
type oracle struct {
	view       *view
	namespaces cache.Indexer
	informers  informers.SharedInformerFactory
	spread     fwk.Plugin
	// spreadAll also spreads pods without constraints.
	spreadAll fwk.Plugin
	// affinity are plugins by the weight of required affinity.
	affinity map[int64]fwk.Plugin
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	metrics.Register()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	client := fake.NewClientset()
	o := &oracle{
		view: &view{SharedLister: kubecache.NewEmptySnapshot()}, informers: informers.NewSharedInformerFactory(client, 0),
		affinity: map[int64]fwk.Plugin{},
	}
	o.namespaces = o.informers.Core().V1().Namespaces().Informer().GetIndexer()
	handle, err := kuberuntime.NewFramework(ctx, nil, nil, kuberuntime.WithInformerFactory(o.informers),
		kuberuntime.WithSnapshotSharedLister(o.view), kuberuntime.WithParallelism(1))
	if err != nil {
		t.Fatal(err)
	}
	build := func(name string, args apiruntime.Object) fwk.Plugin {
		plugin, err := plugins.NewInTreeRegistry()[name](ctx, args, handle)
		if err != nil {
			t.Fatal(err)
		}
		return plugin
	}
	o.spread = build(names.PodTopologySpread, &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting})
	o.spreadAll = build(names.PodTopologySpread, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting})
	for _, weight := range []int64{0, 1, 30} {
		o.affinity[weight] = build(names.InterPodAffinity, &config.InterPodAffinityArgs{HardPodAffinityWeight: int32(weight)})
	}
	return o
}

// reset drops all namespaces and owners.
func (o *oracle) reset(t rapid.TB) {
	for _, indexer := range []cache.Indexer{
		o.namespaces, o.informers.Core().V1().Services().Informer().GetIndexer(),
		o.informers.Apps().V1().ReplicaSets().Informer().GetIndexer(),
	} {
		if err := indexer.Replace(nil, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// NamespaceLabels makes the oracle's namespaces those of the index.
func (o *oracle) NamespaceLabels(name string) (map[string]string, bool) {
	object, exists, err := o.namespaces.GetByKey(name)
	if err != nil || !exists {
		return nil, false
	}
	return object.(*corev1.Namespace).Labels, true
}

// sameKind selects the pods of the pod's kind, as kube-scheduler does.
func (o *oracle) sameKind(pod *corev1.Pod) labels.Selector {
	core, apps := o.informers.Core().V1(), o.informers.Apps().V1()
	return helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(),
		apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
}

// show gives the plugins the snapshot.
func (o *oracle) show(snapshot *model.Snapshot) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for _, node := range snapshot.Nodes {
		nodes = append(nodes, node.Object)
		for _, task := range node.Tasks {
			pod := task.Pod.DeepCopy()
			pod.Spec.NodeName = node.Name
			pods = append(pods, pod)
		}
	}
	o.view.SharedLister = kubecache.NewSnapshot(pods, nodes)
}

func (o *oracle) node(t rapid.TB, name string) fwk.NodeInfo {
	info, err := o.view.NodeInfos().Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// answer is the result of a filter: none, or its message and whether eviction could help.
type answer struct {
	text      string
	evictable bool
}

// filter runs a plugin for every node.
func (o *oracle) filter(t rapid.TB, plugin fwk.Plugin, pod *corev1.Pod, nodes []*model.Node) []answer {
	ctx, state := context.Background(), kube.NewCycleState()
	answers := make([]answer, len(nodes))
	all, err := o.view.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	_, status := plugin.(fwk.PreFilterPlugin).PreFilter(ctx, state, pod, all)
	if status.IsSkip() {
		return answers
	}
	for i, node := range nodes {
		said := status
		if said.IsSuccess() {
			said = plugin.(fwk.FilterPlugin).Filter(ctx, state, pod, o.node(t, node.Name))
		}
		if !said.IsSuccess() {
			answers[i] = answer{text: said.Message(), evictable: said.Code() == fwk.Unschedulable}
		}
	}
	return answers
}

// score returns a plugin's points for the candidates, nil when it gives none.
func (o *oracle) score(t rapid.TB, plugin fwk.Plugin, pod *corev1.Pod, candidates []*model.Node) []int64 {
	ctx, state := context.Background(), kube.NewCycleState()
	var infos []fwk.NodeInfo
	for _, node := range candidates {
		infos = append(infos, o.node(t, node.Name))
	}
	if status := plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, infos); !status.IsSuccess() {
		return nil
	}
	scores := make(fwk.NodeScoreList, len(candidates))
	for i, node := range candidates {
		points, status := plugin.(fwk.ScorePlugin).Score(ctx, state, pod, infos[i])
		if !status.IsSuccess() {
			t.Fatal(status.AsError())
		}
		scores[i] = fwk.NodeScore{Name: node.Name, Score: points}
	}
	status := plugin.(fwk.ScorePlugin).ScoreExtensions().NormalizeScore(ctx, state, pod, scores)
	if !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	points := make([]int64, len(scores))
	for i := range scores {
		points[i] = scores[i].Score
	}
	return points
}

// byRange is the normalisation of affinity scores, in integers.
func byRange(raw []int64) []int64 {
	low, high := slices.Min(raw), slices.Max(raw)
	points := make([]int64, len(raw))
	for i := range raw {
		if high > low {
			points[i] = 100 * (raw[i] - low) / (high - low)
		}
	}
	return points
}
