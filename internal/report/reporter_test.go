package report

import (
	"strings"
	"testing"
	"time"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestAPanicCostsTheReportOfItsJobAlone, and is returned once.
func TestAPanicCostsTheReportOfItsJobAlone(t *testing.T) {
	r := NewReporter(Source{Whole: func(job *model.Job) (whole, known bool) {
		if job.Key.Name == "bad" {
			_ = job.Tasks[len(job.Tasks)]
		}
		return false, false
	}, Suggestion: func(*model.Job) string { return "" },
		Group:       func(model.JobKey) *v1alpha1.PodGroup { return &v1alpha1.PodGroup{} },
		Reservation: func(*model.Job) *v1alpha1.Reservation { return nil },
	})
	var jobs []*model.Job
	refusals := map[model.JobKey]*model.Refusal{}
	for _, name := range []string{"bad", "good"} {
		job := &model.Job{Key: model.JobKey{Namespace: "ns", Name: name}, MinMember: 1, HasGroup: true}
		jobs, refusals[job.Key] = append(jobs, job), &model.Refusal{Code: model.NotEnoughMembers, Needs: 1}
	}
	writes, _ := r.Report(jobs, refusals, time.Unix(1000, 0))
	if len(writes) == 0 || writes[0].Group == nil || writes[0].Group.Name != "good" {
		t.Errorf("writes %+v", writes)
	}
	if errors := r.TakeErrors(); len(errors) != 1 || !strings.HasPrefix(errors[0], "job ns/bad could not be reported: ") {
		t.Errorf("errors %q", errors)
	}
	if errors := r.TakeErrors(); len(errors) != 0 {
		t.Errorf("again: %q", errors)
	}
}
