package framework

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestLeastRequestIsThatOfTheSmallestMembers compares it with the sum of the smallest, and of all where there are fewer.
func TestLeastRequestIsThatOfTheSmallestMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := &model.Job{}
		var asks []int64
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			amount := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Just(int64(maxAsk-5))).Draw(t, "amount")
			task := &model.Task{Request: model.Resources{amount}, SchedulingGated: rapid.IntRange(0, 5).Draw(t, "gated") == 0}
			if rapid.IntRange(0, 5).Draw(t, "runs") == 0 {
				task.Status = model.Running
			}
			if job.Tasks = append(job.Tasks, task); task.Status == model.Pending && !task.SchedulingGated {
				asks = append(asks, amount)
			}
		}
		needs, want := rapid.IntRange(0, 7).Draw(t, "needs"), int64(0)
		slices.Sort(asks)
		for _, amount := range asks[:min(needs, len(asks))] {
			want = min(want+amount, maxAsk)
		}
		if got := LeastRequest(job, needs, 0); got != want {
			t.Fatalf("%d of %v ask for %d, want %d", needs, asks, got, want)
		}
	})
}

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
		operations = append(operations, operation{task: task})
	}
	if refusal := session.checkQueues(operations); refusal == nil || refusal.Code != model.QueuePaused {
		t.Errorf("with the second: %+v", refusal)
	}
	if refusal := session.checkQueues([]operation{operations[0], operations[2]}); refusal != nil {
		t.Errorf("without it: %+v", refusal)
	}
}
