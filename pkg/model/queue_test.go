package model_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// queued returns a snapshot with a node, two queues, one of them a part of the other, and a job of so many pending tasks in the
// lower one, each of which asks for so many thousandths of a core.
func queued(tasks int, cpu int64) *model.Snapshot {
	s := &model.Snapshot{Dimensions: model.NewDimensions()}
	s.SetNodes([]*model.Node{model.NewNode("n", nil, model.Resources{1 << 40, 0, 0, 0, 0})})
	job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: "job"}}
	for i := range tasks {
		name := fmt.Sprintf("%06d", i)
		job.Tasks = append(job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(name), Name: name}, Job: job.Key, Request: model.Resources{cpu}, Pod: &corev1.Pod{},
		})
	}
	s.Jobs = []*model.Job{job}
	s.SetQueues([]*model.Queue{{Name: "inner", Limit: []model.ListedAmount{{Position: model.CPU, Amount: 5000}}}, {Name: "leaf", Parent: "inner"}})
	s.Enqueue(job, "leaf")
	return s
}

// TestNoSumOverflows is invariant I19: any user may create pods that name a node, each of which asks for as much as one pod may.
func TestNoSumOverflows(t *testing.T) {
	const many = 20_000
	s := queued(many, model.MaxAmount)
	for _, task := range s.Jobs[0].Tasks {
		s.Move(task, model.Placement{Status: model.Bound, Node: "elsewhere"})
	}
	leaf := s.Queue("leaf")
	if exceeded, _ := leaf.Exceeded(func(int) int64 { return 1 }, false, model.Idle, nil); exceeded != s.Queue("inner") || leaf.Used.At(model.CPU) < 0 {
		t.Errorf("%d pods of %d add up to %d", many, model.MaxAmount, leaf.Used.At(model.CPU))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestACycleOfQueuesEnds: queues above each other are counted once.
func TestACycleOfQueuesEnds(t *testing.T) {
	s := queued(1, 1000)
	s.SetQueues([]*model.Queue{{Name: "a", Parent: "b"}, {Name: "b", Parent: "a"}, {Name: "leaf", Parent: "b"}})
	s.Move(s.Jobs[0].Tasks[0], model.Placement{Status: model.Running, Node: "n"})
	for queue, steps := s.Queue("leaf"), 0; queue != nil; queue = queue.Above() {
		if steps++; steps > 3 || queue.Used.At(model.CPU) != 1000 {
			t.Fatalf("%s is step %d and holds %d", queue.Name, steps, queue.Used.At(model.CPU))
		}
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// TestWithoutQueuesNothingIsCounted: a move costs no allocation for queues.
func TestWithoutQueuesNothingIsCounted(t *testing.T) {
	s := queued(1, 1000)
	s.SetQueues(nil)
	if task := s.Jobs[0].Tasks[0]; task.InQueue() != nil || s.QueueRefusal(s.Jobs[0]) != nil || s.CrossesQueues(s.Jobs[0], &model.Job{}) {
		t.Error("a job has a queue, and there is none")
	}
}

// TestNoViewpointOutlivesItsQueues: when the queues are replaced, what a session last looked from is not compared with the new
// ones.
func TestNoViewpointOutlivesItsQueues(t *testing.T) {
	s := queued(1, 1000)
	s.SetHeld([]model.HeldCapacity{{Job: model.JobKey{Name: "holder"}, Queue: s.Queue("inner"), Node: "n", Request: model.Resources{7}}})
	s.SetViewpoint(model.Viewpoint{Job: s.Jobs[0].Key, Queue: s.Queue("leaf"), Guaranteed: s.Queue("inner")})
	s.SetQueues(nil)
	s.SetHeld(nil)
	if got := s.Viewpoint(); got != (model.Viewpoint{}) {
		t.Errorf("the snapshot is looked at from %+v", got)
	}
}
