package main

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// view is what the plugin asks of a session: the jobs.
type view struct {
	framework.View
	snapshot model.Snapshot
}

func (v *view) Snapshot() *model.Snapshot { return &v.snapshot }

// TestJobsOfOtherNamespacesDoNotCount asks the plugin without a session.
func TestJobsOfOtherNamespacesDoNotCount(t *testing.T) {
	cluster := &view{}
	for name, namespace := range map[string]string{"one": "full", "two": "full", "three": "free"} {
		key := model.JobKey{Namespace: namespace, Name: name}
		runs := model.Placement{Status: model.Running, Node: "n1"}
		task := &model.Task{PodRef: model.PodRef{UID: types.UID(name)}, Job: key, Placement: runs}
		cluster.snapshot.Jobs = append(cluster.snapshot.Jobs, &model.Job{Key: key, Tasks: []*model.Task{task}})
	}
	p := &plugin{limit: 2}
	p.OpenSession(cluster)
	for namespace, starts := range map[string]bool{"full": false, "free": true, "empty": true} {
		job := &model.Job{Key: model.JobKey{Namespace: namespace, Name: "new"}}
		if refusal := p.JobReady(job, framework.Ready); (refusal == nil) != starts {
			t.Errorf("a job of namespace %s: %v, and it may start: %v", namespace, refusal, starts)
		}
	}
}
