package isolcpu_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/isolcpu"
)

// plain is a cluster without isolated CPUs and without pods that want any: so many nodes of 16 CPUs, and as many pods of one.
func plain(nodes int, translators []model.RequestTranslator) *cluster.State {
	state := cluster.New(cluster.Options{SchedulerNames: []string{"tutti"}, Translators: translators})
	for i := range nodes {
		name := fmt.Sprintf("n-%d", i)
		state.Apply(&cluster.NodeSeen{Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "1"},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourcePods: resource.MustParse("110"),
			}},
		}})
		pod := newPod(fmt.Sprintf("p-%d", i), "1")
		pod.ResourceVersion = "1"
		state.Apply(&cluster.PodSeen{Pod: cluster.StripPod(pod)})
	}
	return state
}

// fixedView is the view of a snapshot that no session changes.
type fixedView struct {
	framework.View
	snapshot *model.Snapshot
}

func (v fixedView) Snapshot() *model.Snapshot { return v.snapshot }

// TestCostsNothingWhereNothingIsIsolated: no node is read for it, and a session with unchanged nodes allocates nothing for
// it.
func TestCostsNothingWhereNothingIsIsolated(t *testing.T) {
	factory := isolcpu.New(isolcpu.Options{BestFit: 10, Avoid: 1})
	profile := &engine.Profile{Tiers: []engine.Tier{{{Factory: factory}}}}
	state := plain(100, profile.Translators())
	snapshot := state.Snapshot(time.Unix(1_700_000_000, 0))
	if _, known := snapshot.Dimensions.Find(isolated.Resource); known {
		t.Error("every vector has a dimension for it")
	}
	plugin := factory()
	var view framework.View = fixedView{snapshot: snapshot}
	plugin.(framework.SessionOpener).OpenSession(view)
	task := snapshot.Jobs[0].Tasks[0]
	for _, scope := range []framework.FilterScope{framework.NodeOnly, framework.NodeWithPods, framework.ClusterWide} {
		checks, refusal := plugin.(framework.NodeFilter).PreFilter(task, scope)
		if scores := plugin.(framework.NodeScorer).PreScore(task, scope, snapshot.Nodes); len(checks)+len(scores) > 0 || refusal != nil {
			t.Errorf("scope %v: %d checks and %d scores of each node, %v", scope, len(checks), len(scores), refusal)
		}
	}
	if given, refusal := plugin.(framework.CPUAllocator).AllocateCPUs(task, snapshot.Nodes[0]); given != nil || refusal != nil {
		t.Errorf("assigned %v, %v", given, refusal)
	}
	if n := testing.AllocsPerRun(100, func() { plugin.(framework.SessionOpener).OpenSession(view) }); n > 0 {
		t.Errorf("to open a session takes %v allocations", n)
	}
}

// BenchmarkNothingIsolated places a thousand pods on a thousand nodes, with and without the plugin.
func BenchmarkNothingIsolated(b *testing.B) {
	for name, tiers := range map[string][]engine.Tier{
		"without": {{{Factory: anyVictim}}},
		"with":    {{{Factory: anyVictim}, {Factory: isolcpu.New(isolcpu.Options{BestFit: 10, Avoid: 1})}}},
	} {
		b.Run(name, func(b *testing.B) {
			profile := &engine.Profile{Tiers: tiers}
			snapshot := plain(1000, profile.Translators()).Snapshot(time.Unix(1_700_000_000, 0))
			var cache engine.Cache
			b.ReportAllocs()
			for b.Loop() {
				session := engine.Open(snapshot, profile, engine.Options{Cache: &cache})
				session.Try(func(statement *engine.Statement) *model.Refusal {
					for _, job := range snapshot.Jobs {
						node := session.Ask(job, model.Idle).Best(job.Tasks[0], nil)
						if refusal := statement.Put(session.Ask(job, model.Idle), job.Tasks[0], node); refusal != nil {
							b.Fatal(refusal)
						}
					}
					return &model.Refusal{} // the next round begins with the same
				})
				session.Close()
			}
		})
	}
}
