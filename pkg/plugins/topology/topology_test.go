package topology_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/topology"
)

// device is the position of devices in vectors.
const device = model.Unoffered + 1

// The jobs: one names no level, the other does, and tasks of the zero key are of other schedulers.
var (
	plain    = model.JobKey{Name: "plain"}
	choosing = model.JobKey{Name: "topology"}
)

// levels are the labels of each level, from the widest of its tree on.
func levels() [][]string { return [][]string{{"block"}, {"block", "rack"}, {"clique"}} }

func profile(weight int64, topologies []config.Topology) *engine.Profile {
	return &engine.Profile{Topologies: topologies, Tiers: []engine.Tier{{{Factory: topology.New(weight)}}}}
}

func trees() []config.Topology {
	return []config.Topology{
		{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}},
		{Name: "nvlink", Levels: []config.Level{{Name: "clique", Label: "clique"}}},
	}
}

// history is a cluster that changes within sessions and between them.
type history struct {
	t        *rapid.T
	snapshot *model.Snapshot
	cache    engine.Cache
	pods     int
	placed   []*model.Task
	// differed counts how often nodes differed in their scores.
	differed *int
}

func (h *history) n(least, most int) int { return rapid.IntRange(least, most).Draw(h.t, "n") }

func (h *history) object() *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, label := range []string{"block", "rack", "clique"} {
		if value := rapid.SampledFrom([]string{"1", "2", "1", "2", ""}).Draw(h.t, label); value != "" {
			object.Labels[label] = value
		}
	}
	return object
}

func (h *history) node(number int) *model.Node {
	capacity := model.Resources{int64(h.n(0, 5)), 0, 0, 0, 0, int64(h.n(0, 1) * 4)}
	return model.NewNode(fmt.Sprintf("n%02d", number), h.object(), capacity)
}

// task draws one that requests a processor, a device, or both.
func (h *history) task(job model.JobKey) *model.Task {
	h.pods++
	shape := h.n(1, 3)
	return &model.Task{
		PodRef: model.PodRef{UID: types.UID(fmt.Sprintf("p%04d", h.pods))}, Pod: &corev1.Pod{}, Job: job,
		Shape: unique.Make(fmt.Sprint(shape)), Request: model.Resources{int64(shape & 1), 0, 0, 0, 0, int64(shape >> 1)},
	}
}

// change is what the live state does between two sessions.
func (h *history) change() {
	nodes := slices.Clone(h.snapshot.Nodes)
	switch what := h.n(0, 6); {
	case what == 0:
		if node := h.node(h.n(0, 30)); h.snapshot.Node(node.Name) == nil {
			nodes = append(nodes, node)
			slices.SortFunc(nodes, func(a, b *model.Node) int { return cmp.Compare(a.Name, b.Name) })
			h.snapshot.SetNodes(nodes)
		}
	case len(nodes) == 0:
	case what == 1:
		i := h.n(0, len(nodes)-1)
		h.placed = slices.DeleteFunc(h.placed, func(task *model.Task) bool { return task.Node == nodes[i].Name })
		h.snapshot.SetNodes(slices.Delete(nodes, i, i+1))
	case what == 2:
		node := nodes[h.n(0, len(nodes)-1)]
		node.Object = h.object()
		h.snapshot.NodeChanged(node)
	case what == 3:
		other := h.task(model.JobKey{})
		h.snapshot.Update(other, func(task *model.Task) {
			task.Placement = model.Placement{Status: model.Running, Node: nodes[h.n(0, len(nodes)-1)].Name}
		})
		h.placed = append(h.placed, other)
	case len(h.placed) > 0:
		i := h.n(0, len(h.placed)-1)
		h.snapshot.Update(h.placed[i], func(task *model.Task) {
			task.Status = []model.Status{model.Running, model.Releasing, model.Pipelined, model.Succeeded, model.Succeeded}[h.n(0, 4)]
		})
		if !h.placed[i].Status.HasNode() {
			h.placed = slices.Delete(h.placed, i, i+1)
		}
	}
}

// try places a few tasks, and takes that back or not.
func (h *history) try(session *engine.Session) {
	var placed []*model.Task
	keep := h.n(0, 1) > 0
	refusal := session.Try(func(statement *engine.Statement) *model.Refusal {
		for range h.n(1, 4) {
			task, room := h.task(plain), model.CapacityKind(h.n(0, 1))
			ask := session.Ask(session.Snapshot.Job(task.Job), room)
			if node := h.hold(session, task, room); node != nil && statement.Put(ask, task, node) == nil {
				placed = append(placed, task)
			}
		}
		if !keep {
			return &model.Refusal{Code: model.NotEnoughMembers}
		}
		return nil
	})
	if refusal == nil {
		h.placed = append(h.placed, placed...)
	}
}

// used counts from the tasks on the node alone.
func used(node *model.Node) bool {
	return slices.ContainsFunc(node.Tasks, func(task *model.Task) bool {
		if node.Allocatable().At(device) > 0 {
			return task.Status != model.Pipelined && task.Request.At(device) > 0
		}
		return task.Job != model.JobKey{}
	})
}

// broken counts the levels at which a pod on the node breaks no whole domain, from labels and tasks alone.
func (h *history) broken(node *model.Node) (n int) {
	for _, labels := range levels() {
		breaks := node.Object.Labels[labels[len(labels)-1]] != ""
		for _, other := range h.snapshot.Nodes {
			same := !slices.ContainsFunc(labels, func(label string) bool { return other.Object.Labels[label] != node.Object.Labels[label] })
			breaks = breaks && !(same && used(other))
		}
		if !breaks {
			n++
		}
	}
	return n
}

// hold compares the choice for a task with the naive one, and returns it.
func (h *history) hold(session *engine.Session, task *model.Task, room model.CapacityKind) (want *model.Node) {
	best, least := -1, len(levels())+1
	for _, node := range h.snapshot.Nodes {
		if !node.Free(room).Fits(task.Request) {
			continue
		}
		score := 0
		if task.Job == plain {
			score = h.broken(node)
		}
		if least = min(least, score); score > best {
			want, best = node, score
		}
	}
	if best > least {
		*h.differed++
	}
	if got := session.Ask(session.Snapshot.Job(task.Job), room).Best(task, nil); got != want {
		h.t.Fatalf("%s chose %v, want %v", task.Job.Name, name(got), name(want))
	}
	return want
}

func name(node *model.Node) string {
	if node == nil {
		return "no node"
	}
	return fmt.Sprint(node.Name, " ", node.Object.Labels)
}

// TestScoreIsThatOfANaiveRecount: whatever happens within sessions and between them, a task of a job that names no level goes to
// the node with the most broken levels, counted again from labels and pods; that of a job that names one is not affected.
func TestScoreIsThatOfANaiveRecount(t *testing.T) {
	differed := 0
	rapid.Check(t, func(t *rapid.T) {
		h := &history{t: t, snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}, differed: &differed}
		h.snapshot.Dimensions.Index("example.com/device")
		h.snapshot.Jobs = []*model.Job{{Key: plain}, {Key: choosing, Topology: []model.TopologyConstraint{{Level: "rack", Preferred: true}}}}
		for i := range h.n(0, 20) {
			h.snapshot.Nodes = append(h.snapshot.Nodes, h.node(i))
		}
		h.snapshot.SetNodes(h.snapshot.Nodes)
		profile := profile(2, trees())
		for range h.n(2, 12) {
			for range h.n(0, 4) {
				h.change()
			}
			session := engine.Open(h.snapshot, profile, engine.Options{Cache: &h.cache})
			for range h.n(0, 6) {
				for _, job := range []model.JobKey{plain, choosing} {
					h.hold(session, h.task(job), model.CapacityKind(h.n(0, 1)))
				}
				h.try(session)
			}
			session.Close()
		}
	})
	if differed == 0 {
		t.Error("the score was the same for all nodes")
	}
}

// naming is the view of a session of which the jobs named "topology" name levels.
type naming struct{ framework.View }

func (naming) NamesLevels(task *model.Task) bool { return task.Job == choosing }

// TestWhatGetsNoScore: no pod with a weight of zero, no job that names a level, and none at another scope.
func TestWhatGetsNoScore(t *testing.T) {
	for _, c := range []struct {
		name   string
		weight int64
		job    model.JobKey
		scope  framework.FilterScope
		scores int
	}{
		{"a score", 2, plain, framework.NodeWithPods, 1},
		{"weight zero", 0, plain, framework.NodeWithPods, 0},
		{"a job that names a level", 2, choosing, framework.NodeWithPods, 0},
		{"nodes alone", 2, plain, framework.NodeOnly, 0},
		{"the whole cluster", 2, plain, framework.ClusterWide, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			plugin := topology.New(c.weight)()
			plugin.(framework.SessionOpener).OpenSession(naming{})
			scores := plugin.(framework.NodeScorer).PreScore(&model.Task{Job: c.job}, c.scope, nil)
			if len(scores) != c.scores {
				t.Errorf("%d scores, want %d", len(scores), c.scores)
			}
		})
	}
}

// refusing is a filter that may refuse all nodes.
type refusing struct{ refuses bool }

func (*refusing) Name() string { return "refusing" }

func (r *refusing) PreFilter(_ *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if r.refuses && scope == framework.NodeWithPods {
		return nil, &model.Refusal{Code: model.NodesFiltered}
	}
	return nil, nil
}

// TestAFilterThatRefusesAllNodesWhenThereAreMore: the scores of earlier nodes are dropped with them.
func TestAFilterThatRefusesAllNodesWhenThereAreMore(t *testing.T) {
	filter := &refusing{}
	profile := profile(2, trees())
	profile.Tiers[0] = append(profile.Tiers[0], engine.TierPlugin{Factory: func() framework.Plugin { return filter }})
	snapshot, cache := &model.Snapshot{Dimensions: model.NewDimensions(), Jobs: []*model.Job{{Key: plain}}}, engine.Cache{}
	task := &model.Task{Pod: &corev1.Pod{}, Job: plain, Shape: unique.Make("plain")}
	var nodes []*model.Node
	for i, refuses := range []bool{false, true, false} {
		nodes = append(nodes, &model.Node{Name: fmt.Sprint("n", i), Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"clique": "c1"}}}})
		snapshot.SetNodes(slices.Clone(nodes))
		filter.refuses = refuses
		session := engine.Open(snapshot, profile, engine.Options{Cache: &cache})
		if node := session.Ask(session.Snapshot.Job(task.Job), model.Idle).Best(task, nil); (node == nil) != refuses {
			t.Errorf("of %d nodes it chose %v", len(nodes), name(node))
		}
		session.Close()
	}
}

// TestPodsBreakDomainsWithoutDevices: what nodes offer of memory in large pages, and of isolated CPUs, is no device.
func TestPodsBreakDomainsWithoutDevices(t *testing.T) {
	for _, offered := range []corev1.ResourceName{"hugepages-2Mi", isolated.Resource} {
		snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Jobs: []*model.Job{{Key: plain}}}
		position := snapshot.Dimensions.Index(offered)
		for _, rack := range []string{"r1", "r2"} {
			var offers model.Resources
			offers.Set(position, 8)
			object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": rack}}}
			snapshot.Nodes = append(snapshot.Nodes, model.NewNode(rack, object, offers))
		}
		snapshot.SetNodes(snapshot.Nodes)
		pod := &model.Task{PodRef: model.PodRef{UID: "running"}, Pod: &corev1.Pod{}, Job: plain}
		snapshot.Update(pod, func(task *model.Task) { task.Placement = model.Placement{Status: model.Running, Node: "r2"} })
		session := engine.Open(snapshot, profile(2, trees()), engine.Options{})
		task := &model.Task{Pod: &corev1.Pod{}, Job: plain}
		if node := session.Ask(snapshot.Job(plain), model.Idle).Best(task, nil); node == nil || node.Name != "r2" {
			t.Errorf("%s: a pod goes to %s, and the other rack is broken already", offered, name(node))
		}
		session.Close()
	}
}

// TestReadWeight: the argument, and its default.
func TestReadWeight(t *testing.T) {
	for text, want := range map[string]int64{"": 2, "0": 0, "7": 7} {
		values := map[string]string{}
		if text != "" {
			values["broken.weight"] = text
		}
		reader := config.NewArguments("plugin topology", values).Reader()
		if got := topology.ReadWeight(reader); got != want || reader.Finish() != nil {
			t.Errorf("%q: %d, want %d; %v", text, got, want, reader.Finish())
		}
	}
}
