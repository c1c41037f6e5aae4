package engine

import (
	"fmt"
	"slices"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestSumsOfForgottenLevelsAreDropped: users name keys of labels, and sums are kept for the levels that the cache has alone.
func TestSumsOfForgottenLevelsAreDropped(t *testing.T) {
	snapshot := &model.Snapshot{
		Dimensions: model.NewDimensions(), Nodes: []*model.Node{{Name: "n1", Object: &corev1.Node{}}},
	}
	profile, cache := &Profile{}, Cache{}
	task := &model.Task{Pod: &corev1.Pod{}, Shape: shapes[0]}
	for i := range 10 * maxLabelLevels {
		session := Open(snapshot, profile, Options{Cache: &cache})
		level := session.Domains(fmt.Sprint("label:k", i))
		session.askFor(task, model.Idle).Counts(task).In(level)
		session.Close()
		for known := range cache.shapes[task.Shape].fits[model.Idle].sums {
			if cache.domains[known.Level] != known {
				t.Fatalf("after %d levels there are sums of %s, which is forgotten", i+1, known.Level)
			}
		}
	}
}

// largeTopology is 10,000 nodes in 10 blocks, 500 racks and 556 cliques, and as many tasks as there are shapes.
func largeTopology(tasks int) (*model.Snapshot, *Profile, []*model.Task) {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	var nodes []*model.Node
	for i := range 10_000 {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			"block": fmt.Sprint(i / 1000), "rack": fmt.Sprint(i / 20), "clique": fmt.Sprint(i / 18),
		}}}
		nodes = append(nodes, model.NewNode(fmt.Sprintf("n%05d", i), object, model.Resources{int64(i % 100)}))
	}
	snapshot.SetNodes(nodes)
	profile := &Profile{Topologies: []config.Topology{
		{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}},
		{Name: "nvlink", Levels: []config.Level{{Name: "clique", Label: "clique"}}},
	}}
	var all []*model.Task
	for i := range tasks {
		all = append(all, &model.Task{Pod: &corev1.Pod{}, Shape: unique.Make(fmt.Sprint("shape ", i)), Request: model.Resources{int64(1 + i%50)}})
	}
	return snapshot, profile, all
}

// TestTablesAreBounded: of however many shapes pods are, the tables of at most 256 are kept on 10,000 nodes with three levels,
// at most 20 MB. The shape that was not asked about for longest goes first; asked about again, it gets the same
// answers.
func TestTablesAreBounded(t *testing.T) {
	const mostShapes, mostBytes = 256, 20_000_000
	snapshot, profile, tasks := largeTopology(mostShapes + 10)
	var cache Cache
	session := Open(snapshot, profile, Options{Cache: &cache})
	afresh := Open(snapshot, profile, Options{Afresh: true})
	levels := []*Domains{session.Domains("block"), session.Domains("rack"), session.Domains("clique")}
	tables := func(task *model.Task) (all []int64) {
		for _, room := range []model.CapacityKind{model.Idle, model.FutureIdle} {
			fits := session.askFor(task, room).Counts(task)
			for _, n := range fits.Each() {
				all = append(all, int64(n))
			}
			for _, level := range levels {
				all = append(all, fits.In(level)...)
			}
		}
		return all
	}
	evicted := tasks[1]
	before := tables(evicted)
	tables(tasks[0])
	often := cache.shapes[tasks[0].Shape] // it is asked about between all others
	for i, task := range tasks {
		tables(task)
		tables(tasks[0])
		if len(cache.shapes) > mostShapes || cache.shapes[tasks[0].Shape] != often {
			t.Fatalf("after %d shapes the tables of %d are kept, want at most %d, and that which is asked about most", i+1, len(cache.shapes), mostShapes)
		}
	}
	if kept := keptBytes(&cache); kept > mostBytes {
		t.Errorf("%d bytes of tables are kept for %d shapes, want at most %d", kept, len(cache.shapes), mostBytes)
	}
	for i, task := range tasks {
		wanted := i == 0 || i > len(tasks)-len(cache.shapes)
		if is := cache.shapes[task.Shape] != nil; is != wanted {
			t.Errorf("shape %d of %d is kept: %t, want %t", i, len(tasks), is, wanted)
		}
	}
	if got, want := session.askFor(evicted, model.Idle).Best(evicted, nil), afresh.askFor(evicted, model.Idle).Best(evicted, nil); got != want {
		t.Errorf("a shape that is asked about again goes to %s, want %s", name(got), name(want))
	}
	if !slices.Equal(tables(evicted), before) {
		t.Error("a shape that is asked about again has another table")
	}
}

// keptBytes counts the memory of all tables that a cache keeps.
func keptBytes(c *Cache) (bytes int) {
	for _, known := range c.shapes {
		for _, fits := range known.fits {
			if fits == nil {
				continue
			}
			bytes += 4 * cap(fits.each)
			for _, sums := range fits.sums {
				bytes += 8 * cap(sums.fits)
			}
		}
	}
	return bytes
}
