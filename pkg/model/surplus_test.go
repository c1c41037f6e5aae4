package model_test

import (
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
	"pgregory.net/rapid"
)

// TestLeastRequestIsThatOfTheSmallestMembers compares it with the sum of the smallest, and of all where there are fewer.
func TestLeastRequestIsThatOfTheSmallestMembers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := &model.Job{}
		var asks []int64
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			amount := rapid.OneOf(rapid.Int64Range(0, 9), rapid.Just(int64(model.MaxSum-5))).Draw(t, "amount")
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
			want = min(want+amount, model.MaxSum)
		}
		if got := model.LeastRequest(job, needs, 0); got != want {
			t.Fatalf("%d of %v ask for %d, want %d", needs, asks, got, want)
		}
	})
}
