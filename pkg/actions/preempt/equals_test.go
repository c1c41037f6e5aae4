package preempt_test

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// TestWhoseQuarantineIsOverMayBeEvicted though nothing else has changed since there was no pod to evict.
func TestWhoseQuarantineIsOverMayBeEvicted(t *testing.T) {
	snapshot := full(1, 8)
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 1}, Priority: 10, Version: 1}
	device(job, "z")
	snapshot.Jobs = append(snapshot.Jobs, job)
	profile := &engine.Profile{
		Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())},
		Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
	}
	victim := snapshot.Jobs[0].Key
	for cycle, held := range []map[model.JobKey]*model.Refusal{{victim: {Code: model.Quarantined}}, {victim: {Code: model.Quarantined}}, nil} {
		snapshot.JobBackoff = held
		evicted := 0
		engine.Run(snapshot, profile, engine.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }})
		if want := map[bool]int{true: 8}[held == nil]; evicted != want {
			t.Errorf("cycle %d: %d pods are evicted, want %d", cycle, evicted, want)
		}
	}
}
