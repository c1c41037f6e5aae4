package lifecycle

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestBegunOfTwoLateSteps is the same at each call: both have begun with the minimum of the job, and with other requests.
func TestBegunOfTwoLateSteps(t *testing.T) {
	job := &model.Job{Key: model.JobKey{Name: "train", Source: model.SourceJobSet}, UID: "train"}
	job.Present.Minima = model.Minima{MinMember: 2, Roles: []model.Role{
		{Name: "a", MinMember: 1, MadeLater: true}, {Name: "b", MinMember: 1, MadeLater: true},
	}}
	gangs := New(0, backoff.NewDelays())
	for i, role := range []string{"a", "b"} {
		task := &model.Task{Role: role, Request: model.Resources{int64(i + 1)}}
		task.Status = model.Binding
		job.Present.Tasks = append(job.Present.Tasks, task)
		gangs.Begin(job)
	}
	for range 50 {
		if got := gangs.Begun()[job.Key].Requests; !slices.Equal(got, model.Resources{3}) {
			t.Fatalf("the requests are %v, want those of the step that has begun last by name", got)
		}
	}
}

// TestAGangHasStartedOnce: its status is sent between two answers to its binds.
func TestAGangHasStartedOnce(t *testing.T) {
	task := &model.Task{Request: model.Resources{1}, Placement: model.Placement{Status: model.Binding}}
	job := &model.Job{Key: model.JobKey{Namespace: "default", Name: "train"}, UID: "train", HasGroup: true}
	job.Present = model.Part{Minima: model.Minima{MinMember: 1}, Tasks: []*model.Task{task}}
	gangs := New(0, backoff.NewDelays())
	gangs.Begin(job)
	task.Status = model.Bound
	if !gangs.Committed(job) {
		t.Fatal("it has not started")
	}
	gangs.StatusSent([]commit.Write{&commit.GroupStatus{Namespace: "default", Name: "train", UID: "train", Status: v1alpha1.PodGroupStatus{
		StartedMinMember: 1, Conditions: []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue}},
	}}})
	if gangs.Committed(job) {
		t.Error("it has started twice")
	}
}
