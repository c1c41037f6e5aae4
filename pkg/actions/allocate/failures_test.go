package allocate_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
)

// apart is a filter that keeps siblings off one node, and counts how often it is asked to.
type apart struct {
	asked     *int
	contained bool
}

func (apart) Name() string { return "apart" }

func (a apart) DependsOnSnapshotOnly(*model.Task) bool { return a.contained }

func (a apart) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(node *model.Node) *model.Refusal {
		*a.asked++
		for _, other := range node.Tasks {
			if other.Job == task.Job {
				return &model.Refusal{Code: model.NodesFiltered, Detail: "a sibling runs there"}
			}
		}
		return nil
	}}, nil
}

// A gang of three that must be apart, on two nodes, cannot start. Its answer is no other gang's, but it is asked for again only
// when it may be another one.
func TestAGangThatMustBeApartIsNotTriedAgainInVain(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside bool
		change func(*model.Snapshot)
		again  bool
	}{
		{name: "nothing", inside: true, change: func(*model.Snapshot) {}},
		{name: "nothing that the snapshot tells", change: func(*model.Snapshot) {}, again: true},
		{name: "a node", inside: true, change: func(s *model.Snapshot) { s.NodeChanged(s.Nodes[0]) }, again: true},
		{name: "labels of a namespace", inside: true, change: func(s *model.Snapshot) { s.Journal.NamespaceRelabelled() }, again: true},
		{name: "the job", inside: true, change: func(s *model.Snapshot) { s.Jobs[0].Version++ }, again: true},
		{name: "a member that was refused", inside: true, change: func(s *model.Snapshot) {
			s.BindBackoff = map[types.UID]*model.Refusal{"m1": {Code: model.BindFailed}}
		}, again: true},
		{name: "a pod of another job that was refused", inside: true, change: func(s *model.Snapshot) {
			s.BindBackoff = map[types.UID]*model.Refusal{"x": {Code: model.BindFailed}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			snapshot := trio()
			profile := &engine.Profile{
				Actions: []engine.Action{allocate.New()},
				Tiers: []engine.Tier{{{Factory: gang.New}, {Factory: func() framework.Plugin {
					return apart{asked: &asked, contained: c.inside}
				}}}},
			}
			cache := &engine.Cache{}
			key := snapshot.Jobs[0].Key
			first := engine.Run(snapshot, profile, engine.Options{Cache: cache}).Refusals[key]
			if first == nil || asked == 0 {
				t.Fatalf("refused with %q after %d questions", first, asked)
			}
			asked = 0
			snapshot.Version++ // something else has changed
			c.change(snapshot)
			second := engine.Run(snapshot, profile, engine.Options{Cache: cache}).Refusals[key]
			if (asked > 0) != c.again {
				t.Errorf("%d questions the second time; want some: %v", asked, c.again)
			}
			if second.String() != first.String() {
				t.Errorf("%q the second time, %q the first", second, first)
			}
		})
	}
}

func trio() *model.Snapshot {
	snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Version: 1}
	for i := range 2 {
		room := model.Resources{8, 8, 0, 0}
		snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprint("n", i), &corev1.Node{}, room))
	}
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", Need: model.Need{MinMember: 3}, Version: 1}
	for i := range 3 {
		name := fmt.Sprint("m", i)
		job.Tasks = append(job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(name), Name: name}, Job: job.Key, Pod: &corev1.Pod{}, Request: model.Resources{1, 1},
		})
	}
	snapshot.Jobs = []*model.Job{job}
	snapshot.SetNodes(snapshot.Nodes)
	return snapshot
}
