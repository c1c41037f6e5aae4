package allocate_test

import (
	"fmt"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
)

// taste likes nodes by a number of their own, and wants gangs gathered.
type taste struct{ of map[string]int64 }

func (taste) Name() string { return "taste" }

func (taste) PrefersColocation() bool { return true }

func (p taste) PreScore(_ *model.Task, scope framework.FilterScope, _ []*model.Node) []framework.NodeScore {
	if scope != framework.NodeOnly {
		return nil
	}
	return []framework.NodeScore{{Name: "taste", Weight: 1, Score: func(node *model.Node) int64 { return p.of[node.Name] }}}
}

// party is a gang whose members prefer one rack, or else one zone, and nodes in some of them.
type party struct {
	snapshot *model.Snapshot
	job      *model.Job
	taste    taste
}

func drawParty(t *rapid.T) party {
	p := party{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}, taste: taste{of: map[string]int64{}}}
	for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{}}}
		if zone := rapid.IntRange(0, 3).Draw(t, "zone"); zone > 0 {
			object.Labels["zone"] = fmt.Sprint("z", zone)
			object.Labels["rack"] = fmt.Sprint("r", zone, rapid.IntRange(1, 2).Draw(t, "rack"))
		}
		room := model.Resources{rapid.Int64Range(0, 6).Draw(t, "cpu"), 0, 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(object.Name, object, room))
		p.taste.of[object.Name] = rapid.Int64Range(0, 3).Draw(t, "taste")
	}
	count := rapid.IntRange(2, 10).Draw(t, "members")
	p.job = &model.Job{
		Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang",
		Need: model.Need{MinMember: int32(rapid.IntRange(2, count).Draw(t, "min"))},
	}
	for i := range count {
		name := fmt.Sprint("m", i)
		p.job.Tasks = append(p.job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(name), Name: name}, Job: p.job.Key, Pod: sociable(),
			Request: model.Resources{1}, Shape: unique.Make("one"),
		})
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

func sociable() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}}}
	affinity := &corev1.PodAffinity{}
	for _, key := range []string{"zone", "rack"} {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			affinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{
				Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: metav1.SetAsLabelSelector(pod.Labels), TopologyKey: key},
			})
	}
	pod.Spec.Affinity = &corev1.Affinity{PodAffinity: affinity}
	return pod
}

// holds reports whether any value of a label has capacity for the whole minimum; the empty label is the whole cluster.
func (p party) holds(key string) bool {
	room := map[string]int64{}
	for _, node := range p.snapshot.Nodes {
		if value, ok := node.Object.Labels[key]; ok || key == "" {
			if room[value] += node.Allocatable().At(model.CPU); room[value] >= int64(p.job.MinMember) {
				return true
			}
		}
	}
	return false
}

// values returns how many values of a label the nodes have on which the first count binds are.
func (p party) values(decision model.Decision, key string) int {
	values := map[string]bool{}
	for _, bind := range decision.Binds[:decision.MinBinds] {
		value, ok := p.snapshot.Node(bind.Node).Object.Labels[key]
		if !ok {
			value = "none, on " + bind.Node
		}
		values[value] = true
	}
	return len(values)
}

// A gang that fits starts; its minimum stands in one rack if one holds it, else in one zone if one holds it.
func TestGangsThatPreferToBeTogetherAreIfTheyCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawParty(t)
		fits, rack, zone := p.holds(""), p.holds("rack"), p.holds("zone")
		var first *model.Decision
		engine.Run(p.snapshot, &engine.Profile{
			Actions: []engine.Action{allocate.New()},
			Tiers:   []engine.Tier{{{Factory: gang.New}, {Factory: func() framework.Plugin { return p.taste }}}},
		}, engine.Options{Verify: true, Decide: func(decision model.Decision) {
			if first == nil {
				first = &decision
			}
		}})
		switch {
		case fits != (first != nil):
			t.Fatalf("fits: %t, started: %v", fits, first)
		case rack && p.values(*first, "rack") != 1:
			t.Fatalf("a rack holds the gang, and it starts on %v", first.Binds)
		case zone && !rack && p.values(*first, "zone") != 1:
			t.Fatalf("a zone holds the gang, and it starts on %v", first.Binds)
		}
	})
}
