package preempt_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tutti-sched/tutti/pkg/actions/preempt"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
)

// TestEvictionsOnTheirWayCountAgainstBudgets, since what a budget says does not know of them: until the API server has taken
// them, and the pods say so.
func TestEvictionsOnTheirWayCountAgainstBudgets(t *testing.T) {
	for _, c := range []struct {
		onTheirWay, deleted int
		allowed             int32
		evicted             int
	}{
		{onTheirWay: 0, allowed: 1, evicted: 1},
		{onTheirWay: 1, allowed: 1, evicted: 0},
		{onTheirWay: 1, allowed: 2, evicted: 1},
		{onTheirWay: 1, deleted: 1, allowed: 1, evicted: 1},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			snapshot := full(1, 1)
			for i := range c.onTheirWay {
				task := snapshot.Nodes[0].Tasks[i]
				snapshot.Update(task, func(task *model.Task) { task.Status = model.Releasing })
				if i < c.deleted {
					task.Pod.DeletionTimestamp = &metav1.Time{}
				}
				other := &model.Job{Key: model.JobKey{Namespace: "default", Name: "y"}, Need: model.Need{MinMember: 1}, Priority: 10}
				device(other, "y").Nominated = task.Node // keeps the capacity that is being released
				snapshot.SetHeld([]model.HeldCapacity{{
					Job: other.Key, Priority: 10, Node: task.Node, Pod: other.Tasks[0].PodRef, Request: other.Tasks[0].Request,
				}})
			}
			snapshot.Budgets = []model.Budget{{Namespace: "default", Name: "b", Selector: labels.Everything(), Allowed: c.allowed}}
			job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "z"}, Need: model.Need{MinMember: 1}, Priority: 10}
			device(job, "z")
			snapshot.Jobs = append(snapshot.Jobs, job)
			evicted := 0
			engine.Run(snapshot, &engine.Profile{
				Actions: []engine.Action{refusing{}, preempt.New(preempt.DefaultOptions())},
				Tiers:   []engine.Tier{{{Factory: priority.New}, {Factory: gang.New}}},
			}, engine.Options{Decide: func(d model.Decision) { evicted += len(d.Evictions) }, Verify: true})
			if evicted != c.evicted {
				t.Errorf("%d pods are evicted, want %d", evicted, c.evicted)
			}
		})
	}
}
