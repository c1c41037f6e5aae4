package lifecycle

import (
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/internal/backoff"
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
