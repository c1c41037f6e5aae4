package proportion

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// borrowed is a node of four CPUs, all used by single pods of queue a, and pods of queue b that wait for so many each.
func borrowed(waiting ...int64) *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions()}
	offers := model.Resources{4, 0, 0, 100}
	node := model.NewNode("n", nil, offers)
	snapshot.Nodes = []*model.Node{node}
	snapshot.SetQueues([]*model.Queue{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}})
	add := func(name, queue string, cpu int64, runs bool) {
		job := &model.Job{Key: model.JobKey{Name: name, Source: model.SourcePod}, Need: model.Need{MinMember: 1}}
		task := &model.Task{
			PodRef: model.PodRef{Name: name, UID: types.UID(name)}, Job: job.Key, Pod: &corev1.Pod{}, Request: model.Resources{cpu, 0, 0, 1},
		}
		if runs {
			task.Placement = model.Placement{Status: model.Running, Node: node.Name}
			node.Place(task)
		}
		job.Tasks = []*model.Task{task}
		snapshot.Jobs = append(snapshot.Jobs, job)
		snapshot.Enqueue(job, queue)
	}
	for i := range 4 {
		add(fmt.Sprintf("a%d", i), "a", 1, true)
	}
	for i, cpu := range waiting {
		add(fmt.Sprintf("b%d", i), "b", cpu, false)
	}
	return snapshot
}

// TestTheEngineAsksAboutEachStatement, whatever an action has found out before: it evicts for a right alone.
func TestTheEngineAsksAboutEachStatement(t *testing.T) {
	for name, c := range map[string]struct {
		asks    []int64
		victims []string
		tiers   []engine.Tier
		says    string
	}{
		"to the same level":      {asks: []int64{2}, victims: []string{"a0", "a1"}, tiers: []engine.Tier{{{Factory: New}}}},
		"above the giver":        {asks: []int64{3}, victims: []string{"a0", "a1", "a2"}, tiers: []engine.Tier{{{Factory: New}}}, says: "no right to pods of other queues"},
		"for two jobs":           {asks: []int64{1, 1}, victims: []string{"a0", "a1"}, tiers: []engine.Tier{{{Factory: New}}}, says: "several jobs"},
		"without shares":         {asks: []int64{2}, victims: []string{"a0", "a1"}, says: `of queue "a" would be evicted for queue "b"`},
		"more than without them": {asks: []int64{1}, victims: []string{"a0", "a1", "a2", "a3"}, tiers: []engine.Tier{{{Factory: New}}}, says: "not all of the victims may go"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := borrowed(c.asks...)
			var decided []model.Decision
			session := engine.Open(snapshot, &engine.Profile{Tiers: c.tiers}, engine.Options{
				Decide: func(decision model.Decision) { decided = append(decided, decision) },
			})
			task := func(name string) *model.Task {
				return snapshot.Job(model.JobKey{Name: name, Source: model.SourcePod}).Tasks[0]
			}
			refusal := session.Try(func(statement *engine.Statement) *model.Refusal {
				for _, victim := range c.victims {
					if refusal := statement.Evict(task(victim)); refusal != nil {
						return refusal
					}
				}
				for i := range c.asks {
					member := task(fmt.Sprintf("b%d", i))
					ask := session.Ask(snapshot.Job(member.Job), model.FutureIdle)
					if refusal := statement.Put(ask, member, snapshot.Nodes[0]); refusal != nil {
						return refusal
					}
				}
				return nil
			})
			switch {
			case c.says != "":
				if refusal == nil || refusal.Code != framework.CodeMisuse || !strings.Contains(refusal.Detail, c.says) || len(decided) > 0 {
					t.Errorf("refusal %v, decided %v", refusal, decided)
				}
			case refusal != nil || len(decided) != 1 || len(decided[0].Evictions) != len(c.victims):
				t.Errorf("refusal %v, decided %v", refusal, decided)
			default:
				for _, eviction := range decided[0].Evictions {
					if eviction.Right != model.ByShare || eviction.Queue != "b" {
						t.Errorf("%+v", eviction)
					}
				}
			}
		})
	}
}
