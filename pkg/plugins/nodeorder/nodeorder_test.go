package nodeorder_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// counterpart lists which scores must be equal, and by how much they may differ, for the reasons in the package's comment.
type counterpart struct {
	ours, theirs string
	tolerance    int64
}

func TestSameAsKubeScheduler(t *testing.T) {
	w := newWorld(t, strategy(config.LeastAllocated))
	counterparts := []counterpart{
		{"nodeaffinity", "NodeAffinity", 0}, {"tainttoleration", "TaintToleration", 0}, {"imagelocality", "ImageLocality", 0},
		{"podaffinity", "InterPodAffinity", 0}, {"podtopologyspread", "PodTopologySpread", 0},
		{"leastrequested", "NodeResourcesFit", 0}, {"balancedresource", "NodeResourcesBalancedAllocation", 0},
	}
	compare(t, w, nodeorder.DefaultWeights(), counterparts)
}

func TestMostRequestedAsKubeScheduler(t *testing.T) {
	w := newWorld(t, strategy(config.MostAllocated))
	compare(t, w, nodeorder.Weights{MostRequested: 1}, []counterpart{{"mostrequested", "NodeResourcesFit", 0}})
}

func TestRatioAsKubeScheduler(t *testing.T) {
	ratio := strategy(config.RequestedToCapacityRatio)
	ratio.RequestedToCapacityRatio = &config.RequestedToCapacityRatioParam{Shape: []config.UtilizationShapePoint{
		{Utilization: 10, Score: 0}, {Utilization: 70, Score: 10}, {Utilization: 100, Score: 3},
	}}
	shape, err := nodeorder.ParseShape("10:0,70:10, 100:3")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, ratio)
	weights := nodeorder.Weights{RequestedToCapacityRatio: 1, Shape: shape}
	compare(t, w, weights, []counterpart{{"requestedtocapacityratio", "NodeResourcesFit", 0}})
}

func strategy(kind config.ScoringStrategyType) *config.ScoringStrategy {
	return &config.ScoringStrategy{
		Type: kind, Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}},
	}
}

// compare scores random clusters with both and reports where a score differs by more than allowed.
func compare(t *testing.T, w *world, weights nodeorder.Weights, counterparts []counterpart) {
	t.Helper()
	apart := map[string]int{}
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := randomCluster(r)
		w.view.SharedLister = cache.NewSnapshot(c.pods, c.nodes)
		pod := randomPod(r, "incoming")
		ours, theirs := w.ours(t, weights, taskOf(pod), c.models), w.theirs(t, pod, c.nodes)
		for _, pair := range counterparts {
			got, want := ours[pair.ours], theirs[pair.theirs]
			if got == nil {
				got = make([]int64, len(c.nodes)) // a score that does not apply is 0 for all
			}
			for i := range got {
				if want != nil && max(got[i]-want[i], want[i]-got[i]) > pair.tolerance {
					t.Fatalf("seed %d, node %s: %s is %d, kube-scheduler's %s is %d",
						seed, c.nodes[i].Name, pair.ours, got[i], pair.theirs, want[i])
				}
			}
			if slices.Max(got) != slices.Min(got) {
				apart[pair.ours]++
			}
		}
	}
	for _, pair := range counterparts {
		if apart[pair.ours] < 50 {
			t.Errorf("%s differed between nodes in %d clusters only", pair.ours, apart[pair.ours])
		}
	}
}

func TestPodsWithoutRequestsDoNotPileUp(t *testing.T) {
	w := newWorld(t, strategy(config.LeastAllocated))
	room := model.Resources{model.CPU: 4000, model.Memory: 8 << 30}
	idle := func(uid string) *model.Task {
		return &model.Task{PodRef: model.PodRef{UID: types.UID(uid)}, Pod: &corev1.Pod{}, NonZeroDefaults: model.NonZeroDefaults{100, 200 << 20}}
	}
	used := model.NewNode("a", &corev1.Node{}, room)
	free := model.NewNode("b", &corev1.Node{}, room)
	one, two := idle("1"), idle("2")
	one.Placement = model.Placement{Status: model.Allocated, Node: "a"}
	used.Place(one)
	weights := nodeorder.Weights{LeastRequested: 1, BalancedResource: 1}
	scores := w.ours(t, weights, idle("3"), []*model.Node{used, free})
	if least := scores["leastrequested"]; least[0] >= least[1] {
		t.Errorf("leastrequested is %v, want the free node above the other", least)
	}
	two.Placement = model.Placement{Status: model.Pipelined, Node: "b"}
	free.Place(two)
	again := w.ours(t, weights, idle("3"), []*model.Node{used, free})
	if !slices.Equal(again["leastrequested"], scores["leastrequested"]) {
		t.Errorf("a promised neighbour changes leastrequested from %v to %v", scores["leastrequested"], again["leastrequested"])
	}
	if balanced, asked := scores["balancedresource"]; asked {
		t.Errorf("balancedresource is %v for a pod without requests, want it left out", balanced)
	}
}

func TestResourceScores(t *testing.T) {
	w := newWorld(t, strategy(config.LeastAllocated))
	weights := nodeorder.DefaultWeights()
	weights.MostRequested, weights.RequestedToCapacityRatio = 1, 1
	cases := []struct {
		name                          string
		allocatable, idle, request    model.Resources
		least, most, balanced, packed int64
	}{
		{"half full and even", vector(4000, 400), vector(4000, 400), vector(2000, 200), 50, 50, 75, 50},
		{"uneven", vector(4000, 400), vector(4000, 400), vector(4000, 100), 37, 62, 56, 63},
		{"evens out", vector(4000, 400), vector(0, 400), vector(0, 400), 0, 100, 100, 100},
		{"overdrawn", vector(4000, 400), vector(-1000, -100), vector(1000, 100), 0, 100, 75, 100},
		{"no memory offered", vector(4000, 0), vector(4000, 0), vector(1000, 1), 75, 25, 75, 25},
		{"nothing offered", nil, nil, vector(1000, 100), 0, 0, 75, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			node := occupied("a", c.allocatable, c.idle)
			w.view.SharedLister = cache.NewSnapshot(nil, []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}})
			scores := w.ours(t, weights, &model.Task{Pod: &corev1.Pod{}, Request: c.request}, []*model.Node{node})
			var got []int64
			for _, name := range []string{"leastrequested", "mostrequested", "balancedresource", "requestedtocapacityratio"} {
				got = append(got, scores[name][0])
			}
			if want := []int64{c.least, c.most, c.balanced, c.packed}; !slices.Equal(got, want) {
				t.Errorf("least, most, balanced, ratio are %v, want %v", got, want)
			}
		})
	}
}

func vector(cpu, memory int64) model.Resources {
	return model.Resources{model.CPU: cpu, model.Memory: memory}
}

// reader returns the arguments of a test as they are; the methods it lacks are never called.
type reader struct {
	argument.Reader
	values  map[string]string
	refused []string
}

func (r *reader) Int(name string, def, _, _ int64) int64 {
	var n int64
	if _, err := fmt.Sscan(r.values[name], &n); err != nil {
		return def
	}
	return n
}

func (r *reader) String(name, def string) string {
	if text, ok := r.values[name]; ok {
		return text
	}
	return def
}

func (r *reader) OneOf(name, def string, words ...string) string {
	text := r.String(name, def)
	if !slices.Contains(words, text) {
		r.Refuse(name, "be one of them")
		return def
	}
	return text
}

func (r *reader) Refuse(name, must string) {
	if _, given := r.values[name]; given {
		r.refused = append(r.refused, name+" must "+must)
	}
}

func TestReadWeights(t *testing.T) {
	plain := nodeorder.ReadWeights(&reader{})
	if want := nodeorder.DefaultWeights(); fmt.Sprint(plain) != fmt.Sprint(want) {
		t.Errorf("without arguments the weights are %+v, want %+v", plain, want)
	}
	all := nodeorder.ReadWeights(&reader{values: map[string]string{
		"leastrequested.weight": "11", "mostrequested.weight": "12", "balancedresource.weight": "13",
		"requestedtocapacityratio.weight": "14", "requestedtocapacityratio.shape": "0:10,100:0", "nodeaffinity.weight": "15",
		"podaffinity.weight": "16", "tainttoleration.weight": "17", "imagelocality.weight": "18", "podtopologyspread.weight": "0",
		"nodepreferavoidpods.weight": "10000", "dynamicresources.weight": "20", "volumebinding.weight": "21", "podaffinity.hardweight": "19",
		"leastrequested.resources": "cpu=1, nvidia.com/gpu=5", "mostrequested.resources": "memory",
		"requestedtocapacityratio.resources": "ephemeral-storage=100", "balancedresource.resources": "cpu,hugepages-2Mi",
	}})
	want := nodeorder.Weights{
		LeastRequested: 11, MostRequested: 12, BalancedResource: 13, RequestedToCapacityRatio: 14, NodeAffinity: 15,
		PodAffinity: 16, TaintToleration: 17, ImageLocality: 18, PodTopologySpread: 0,
		NodePreferAvoidPods: 10000, DynamicResources: 20, VolumeBinding: 21, PodAffinityHard: 19,
		Shape: nodeorder.Shape{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}},

		LeastRequestedResources:           nodeorder.Resources{{Name: "cpu", Weight: 1}, {Name: "nvidia.com/gpu", Weight: 5}},
		MostRequestedResources:            nodeorder.Resources{{Name: "memory", Weight: 1}},
		RequestedToCapacityRatioResources: nodeorder.Resources{{Name: "ephemeral-storage", Weight: 100}},
		BalancedResourceResources:         nodeorder.Resources{{Name: "cpu", Weight: 1}, {Name: "hugepages-2Mi", Weight: 1}},
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", all, want)
	}
}

func TestReadWeightsRefusesShapes(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"0:0,100":        "no colon",
		"0:0,101:1":      "0 to 100",
		"0:11":           "0 to 10",
		"50:1,50:2":      "rise",
		"x:1":            "whole number",
		"without weight": "weight of at least 1",
	} {
		r := &reader{values: map[string]string{"requestedtocapacityratio.shape": text, "requestedtocapacityratio.weight": "1"}}
		if text == "without weight" {
			delete(r.values, "requestedtocapacityratio.weight")
		}
		nodeorder.ReadWeights(r)
		if got := strings.Join(r.refused, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("shape %q: refused with %q, want %q in it", text, got, want)
		}
	}
}

func TestReadWeightsRefusesResources(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"cpu=1,memory=1":             "",
		"cpu=0":                      "whole number from 1 to 100",
		"cpu=101":                    "whole number from 1 to 100",
		"cpu=":                       "whole number from 1 to 100",
		"cpu=1,cpu=2":                "named twice",
		"cpu,":                       "no name",
		"pods=1":                     "no resource that nodes are scored by",
		"gpu":                        "no resource that nodes are scored by",
		"nvidia.com/gp u":            "no resource that nodes are scored by",
		"of a score without weight":  "weight of at least 1",
		"of a balance with a weight": "no weights",
	} {
		score := "leastrequested"
		r := &reader{values: map[string]string{"leastrequested.resources": text}}
		switch {
		case strings.HasSuffix(text, "without weight"):
			score = "mostrequested"
			r.values = map[string]string{"mostrequested.resources": "cpu"}
		case strings.HasSuffix(text, "with a weight"):
			score = "balancedresource"
			r.values = map[string]string{"balancedresource.resources": "cpu=1,memory=2"}
		}
		nodeorder.ReadWeights(r)
		got := strings.Join(r.refused, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) || got != "" && !strings.HasPrefix(got, score+".resources must ") {
			t.Errorf("resources %q: refused with %q, want %q in it", text, got, want)
		}
	}
}

// noScores replaces a kube-scheduler without plugins.
type noScores struct{ nodeorder.Kube }

func (noScores) Plugin(string) fwk.Plugin { return nil }

func TestNewMissesAScore(t *testing.T) {
	_, err := nodeorder.New(noScores{}, topology.New(nil), nodeorder.Weights{ImageLocality: 1})
	if err == nil || !strings.Contains(err.Error(), "ImageLocality") {
		t.Errorf("got error %v, want one that names the score", err)
	}
	if _, err := nodeorder.New(noScores{}, topology.New(nil), nodeorder.Weights{LeastRequested: 1}); err != nil {
		t.Errorf("a weight of 0 asks for a plugin: %v", err)
	}
}

func BenchmarkPlainPod(b *testing.B) {
	w := newWorld(b, strategy(config.LeastAllocated))
	plugin := w.plugin(b, nodeorder.DefaultWeights(), &model.Snapshot{Dimensions: model.NewDimensions()})
	task := &model.Task{Pod: &corev1.Pod{}, Request: vector(1000, 1<<30)}
	b.Run("ask", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			plugin.PreScore(task, framework.NodeWithPods, nil)
			plugin.PreScore(task, framework.ClusterWide, nil)
		}
	})
	nodes := make([]*model.Node, 1024)
	for i := range nodes {
		nodes[i] = occupied(fmt.Sprint(i), vector(32000, 64<<30), vector(int64(i*7919%31000), int64(i*104729%63000)<<20))
	}
	b.Run("node", func(b *testing.B) {
		b.ReportAllocs()
		scores := plugin.PreScore(task, framework.NodeWithPods, nil)
		for i := 0; b.Loop(); i++ {
			for _, score := range scores {
				score.Score(nodes[i%len(nodes)])
			}
		}
	})
}

// occupied returns a node on which so much is idle.
func occupied(name string, allocatable, idle model.Resources) *model.Node {
	node, used := model.NewNode(name, &corev1.Node{}, allocatable), allocatable.Clone()
	used.Sub(idle)
	node.Place(&model.Task{Request: used, Placement: model.Placement{Status: model.Running, Node: name}})
	return node
}
