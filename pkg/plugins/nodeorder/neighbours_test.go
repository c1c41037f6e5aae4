package nodeorder_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
	"github.com/tutti-sched/tutti/pkg/topology"
)

func TestReadDefaulting(t *testing.T) {
	for _, c := range []struct {
		defaulting, weight string
		want, refused      bool
	}{
		{},
		{defaulting: "none"},
		{defaulting: "system", want: true},
		{defaulting: "system", weight: "0", refused: true},
		{defaulting: "list", refused: true},
	} {
		r := &reader{values: map[string]string{}}
		for name, value := range map[string]string{
			"podtopologyspread.defaulting": c.defaulting, "podtopologyspread.weight": c.weight,
		} {
			if value != "" {
				r.values[name] = value
			}
		}
		if got := nodeorder.ReadWeights(r).DefaultSpread; got != c.want || (len(r.refused) > 0) != c.refused {
			t.Errorf("%q with weight %q: %v, refused %q", c.defaulting, c.weight, got, r.refused)
		}
	}
}

// oneKind replaces a kube-scheduler to which all pods of an app are of one kind.
type oneKind struct {
	nodeorder.Kube
	asked int
}

func (k *oneKind) SpreadSelector() func(*corev1.Pod) labels.Selector {
	k.asked++
	return func(pod *corev1.Pod) labels.Selector {
		return labels.SelectorFromSet(labels.Set{"app": pod.Labels["app"]})
	}
}

func TestPodsAreSpreadByDefaultOnlyWhenAskedFor(t *testing.T) {
	for _, byDefault := range []bool{false, true} {
		w := newWorld(t, strategy(config.LeastAllocated))
		kube := &oneKind{Kube: w.kube}
		weights := nodeorder.Weights{PodTopologySpread: 1, DefaultSpread: byDefault}
		newPlugin, err := nodeorder.New(kube, topology.New(w.kube), weights)
		if err != nil {
			t.Fatal(err)
		}
		sibling, task := spreadTask("sibling"), spreadTask("p")
		used, free := hostNode("a"), hostNode("b")
		sibling.Placement = model.Placement{Status: model.Running, Node: "a"}
		used.Place(sibling)
		snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Nodes: []*model.Node{used, free}}
		plugin := newPlugin()
		plugin.(framework.SessionOpener).OpenSession(fixedView{snapshot: snapshot})
		var points []int64
		for _, score := range plugin.(framework.NodeScorer).PreScore(task, framework.ClusterWide, snapshot.Nodes) {
			points = append(points, score.Score(used), score.Score(free))
		}
		switch {
		case !byDefault && (points != nil || kube.asked > 0):
			t.Errorf("not asked for: the points are %v, and siblings were asked for %d times", points, kube.asked)
		case byDefault && (!slices.IsSorted(points) || len(points) != 2 || points[0] == points[1]):
			t.Errorf("asked for: the points are %v, want more for the node without a sibling", points)
		}
	}
}

func spreadTask(name string) *model.Task {
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace, pod.Labels = name, "default", map[string]string{"app": "web"}
	return &model.Task{PodRef: model.PodRef{UID: "u-" + pod.UID, Namespace: pod.Namespace, Name: name}, Pod: pod}
}

func hostNode(name string) *model.Node {
	node := &corev1.Node{}
	node.Name, node.Labels = name, map[string]string{corev1.LabelHostname: name}
	return &model.Node{Name: name, Object: node}
}
