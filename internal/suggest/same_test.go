package suggest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// picky asks more about tasks of one name.
type picky struct{ name string }

func (picky) Name() string { return "picky" }

func (p picky) PreFilter(task *model.Task, scope framework.FilterScope) ([]framework.NodeFilterFunc, *model.Refusal) {
	if scope != framework.ClusterWide || task.Name != p.name {
		return nil, nil
	}
	return []framework.NodeFilterFunc{func(*model.Node) *model.Refusal { return &model.Refusal{} }}, nil
}

// Whether a member asks for more than a node and its room is not in its shape: each is asked for itself.
func TestAlikeAsksEveryMember(t *testing.T) {
	for picked, want := range map[string]bool{"first": false, "second": false, "neither": true} {
		job := &model.Job{Key: model.JobKey{Name: "a"}, MinMember: 2}
		for _, name := range []string{"first", "second"} {
			job.Tasks = append(job.Tasks, &model.Task{PodRef: model.PodRef{Name: name}, Job: job.Key, Pod: &corev1.Pod{}})
		}
		snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Jobs: []*model.Job{job}}
		profile := &framework.Profile{Tiers: []framework.Tier{{{Factory: func() framework.Plugin { return picky{picked} }}}}}
		session := framework.Open(snapshot, profile, framework.Options{})
		if _, ok := ShareKeyOf(session, job, model.InsufficientResources); ok != want {
			t.Errorf("%s asks for more: alike is %t", picked, ok)
		}
	}
}
