package preempt_test

import (
	"fmt"
	"strings"
	"testing"
	"unique"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// TestWhoHadNoTurnIsWokenFor, though nothing happens in the cluster.
func TestWhoHadNoTurnIsWokenFor(t *testing.T) {
	for budget, woken := range map[int64]bool{1: true, 400_000: false} {
		snapshot := full(1, 1)
		for _, name := range []string{"y", "z"} {
			job := &model.Job{Key: model.JobKey{Namespace: "default", Name: name}, Need: model.Need{MinMember: 9}, Priority: 10}
			for range 9 {
				device(job, name)
			}
			snapshot.Jobs = append(snapshot.Jobs, job)
		}
		result := engine.Run(snapshot, &engine.Profile{
			Actions: []engine.Action{refusing{}, preempt.New(preempt.Options{Budget: budget})},
			Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
		}, engine.Options{})
		if result.Until.After(snapshot.Now) != woken {
			t.Errorf("with a budget of %d its answers hold until %v", budget, result.Until)
		}
	}
}

// TestSearchesComeToAnEnd over the cycles, each question being asked once, however many jobs ask it.
func TestSearchesComeToAnEnd(t *testing.T) {
	snapshot := full(50, 4)
	for i := range 200 {
		job := &model.Job{
			Key: model.JobKey{Namespace: "default", Name: fmt.Sprintf("z%04d", i)}, Need: model.Need{MinMember: 1}, Priority: 10, Version: uint64(i + 2),
		}
		task := device(job, job.Key.Name)
		task.Request, task.Shape = model.Resources{int64(i % 20), 0, 0, 1, 9}, unique.Make(fmt.Sprint(i%20))
		job.Class = model.ClassOf(job, func(*model.Task) bool { return false })
		snapshot.Jobs = append(snapshot.Jobs, job)
	}
	profile := &engine.Profile{
		Actions: []engine.Action{refusing{}, preempt.New(preempt.Options{Budget: 100})},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
	}
	waits := 0
	var cache engine.Cache
	for range 20 {
		waits = 0
		for _, refusal := range engine.Run(snapshot, profile, engine.Options{Cache: &cache}).Refusals {
			if strings.Contains(refusal.String(), "exhausted") {
				waits++
			}
		}
	}
	if waits > 0 {
		t.Errorf("%d jobs still wait for their turn", waits)
	}
}
