package engine

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestEachJobOfAStatementIsLookedAt: a statement that starts members of two jobs is refused because of the second, whose queue is
// paused, also where the last member is of the first again.
func TestEachJobOfAStatementIsLookedAt(t *testing.T) {
	snapshot := house(4)
	first, second := join(snapshot, "a", 1, 2, model.Resources{1}), join(snapshot, "b", 1, 1, model.Resources{1})
	snapshot.AssignIndexes()
	paused := &model.Queue{Name: "paused", Inactive: model.QueueIsPaused, Invalid: &model.Refusal{Code: model.QueuePaused}}
	snapshot.SetQueues([]*model.Queue{{Name: "open"}, paused})
	snapshot.Enqueue(first, "open")
	snapshot.Enqueue(second, "paused")
	session := Open(snapshot, &Profile{}, Options{})
	var operations []operation
	for _, task := range []*model.Task{first.Tasks[0], second.Tasks[0], first.Tasks[1]} {
		snapshot.Move(task, model.Placement{Status: model.Allocated, Node: "n0"})
		operations = append(operations, operation{task: task, job: snapshot.Job(task.Job)})
	}
	if refusal := session.checkQueues(operations); refusal == nil || refusal.Code != model.QueuePaused {
		t.Errorf("with the second: %+v", refusal)
	}
	if refusal := session.checkQueues([]operation{operations[0], operations[2]}); refusal != nil {
		t.Errorf("without it: %+v", refusal)
	}
}
