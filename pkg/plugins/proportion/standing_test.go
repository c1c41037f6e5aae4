package proportion

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestOnlyContendedResourcesDecide: a standing is that in the whole world of the job, all resources of it looked at.
func TestOnlyContendedResourcesDecide(t *testing.T) {
	contended := 0
	for _, waiting := range [][]int64{nil, {1}, {1, 2}, {3, 1, 1}} {
		for gpus := range int64(3) {
			snapshot := borrowed(waiting...)
			gpu := snapshot.Dimensions.Index("example.com/gpu")
			node := snapshot.Nodes[0]
			offers := node.Allocatable().Clone()
			offers.Set(gpu, gpus)
			node.SetAllocatable(offers, snapshot.Dimensions.Len())
			for _, job := range snapshot.Jobs {
				if task := job.Tasks[0]; task.Status == model.Pending {
					task.Request.Set(gpu, task.Request.At(model.CPU)%2)
				}
			}
			_, s := opened(snapshot)
			snapshot.Move(snapshot.Jobs[0].Tasks[0], model.Placement{}) // queue a holds less than it did
			for _, queue := range snapshot.Queues {
				number := s.numbers[queue.Index]
				changes := make([]int64, s.dimensions)
				for r := range changes {
					changes[r] = queue.Used.At(r) - s.tree.Part(number, r).Usage
				}
				for _, job := range snapshot.Jobs {
					want := s.tree.Standing(number, s.tree.WorldOf(s.parentOf(queue), job.Tasks[0].Request, s.worlds()), changes)
					if got := s.standing(queue, job); got != want {
						t.Errorf("%v wait, %d GPUs: queue %s with %s is at %v, want %v", waiting, gpus, queue.Name, job.Key.Name, got, want)
					}
				}
			}
			for _, worlds := range s.contended[:min(1, len(s.contended))] {
				contended += len(worlds.Devices) + len(worlds.Ordinary)
			}
		}
	}
	if contended == 0 {
		t.Error("nothing was contended")
	}
}
