package engine

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestLeastCountsSlices: three racks of seven nodes hold twelve members in two of them, and slices of four in three. Slices that
// have lost members take as little as they have left.
func TestLeastCountsSlices(t *testing.T) {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	for i := range 21 {
		labels := map[string]string{"rack": fmt.Sprint("r", i/7)}
		snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprintf("n%02d", i), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}, model.Resources{1000}))
	}
	profile := &Profile{Topologies: []config.Topology{{Name: "fabric", Levels: []config.Level{{Name: "rack", Label: "rack"}}}}}
	for _, c := range []struct {
		size     int32
		lost     int // of each four the first so many
		requests int64
		least    int
	}{{0, 0, 1000, 2}, {4, 0, 1000, 3}, {4, 1, 1000, 2}, {2, 0, 1000, 2}, {4, 0, 500, 1}} {
		job := &model.Job{}
		for i := range 12 {
			if i%4 < c.lost {
				continue
			}
			job.Tasks = append(job.Tasks, &model.Task{
				PodRef: model.PodRef{Name: fmt.Sprint("w-", i)}, Pod: &corev1.Pod{}, Ranks: model.Ranks{Own: model.NumberOf(i)}, Request: model.Resources{c.requests},
				Placement: model.Placement{Status: model.Running, Node: fmt.Sprintf("n%02d", i/4*7+i%4)},
			})
		}
		standing := StandingOf(snapshot, profile, &Cache{}, job, &model.TopologyConstraint{Level: "rack", SliceSize: c.size}, (*model.Task).IsBound)
		if standing.Len() != 3 || standing.Least() != c.least {
			t.Errorf("slices of %d, %d lost of each four, %d of cpu: %d domains, at least %d, want 3 and %d", c.size, c.lost, c.requests, standing.Len(), standing.Least(), c.least)
		}
	}
}
