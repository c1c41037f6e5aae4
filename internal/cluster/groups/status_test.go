package groups

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

func TestWaitingSince(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	with := func(statuses ...model.Status) *model.Job {
		job := &model.Job{MinMember: 2}
		for _, status := range statuses {
			job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: status}})
		}
		return job
	}
	gated := with(model.Pending, model.Pending)
	gated.Tasks[1].SchedulingGated = true
	wrong := with(model.Pending, model.Pending)
	wrong.Invalid = &model.Refusal{Code: model.InvalidGroup}
	for name, c := range map[string]struct {
		job     *model.Job
		before  *metav1.Time
		refused bool
		want    *metav1.Time
	}{
		"refused for the first time":   {with(model.Pending, model.Pending), nil, true, &now},
		"refused again":                {with(model.Pending, model.Pending), &before, true, &before},
		"not refused yet":              {with(model.Pending, model.Pending), nil, false, nil},
		"binds on their way":           {with(model.Binding, model.Binding), &before, false, &before},
		"half of the minimum is bound": {with(model.Bound, model.Binding), &before, false, &before},
		"bound":                        {with(model.Bound, model.Bound), &before, false, nil},
		"bound, and surplus waits":     {with(model.Running, model.Bound, model.Pending), nil, true, nil},
		"lost a member":                {with(model.Running), &before, true, nil},
		"lost a member, one comes":     {with(model.Running, model.Pending), nil, true, &now},
		"members are missing":          {with(model.Pending), &before, true, nil},
		"members are gated":            {gated, &before, true, nil},
		"one has succeeded":            {with(model.Succeeded, model.Pending), &before, true, &before},
		"ended":                        {with(model.Succeeded, model.Failed), &before, false, nil},
		"contradicts itself":           {wrong, &before, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WaitingSince(c.job, c.before, c.refused, now); !got.Equal(c.want) {
				t.Errorf("waiting since %v, want %v", got, c.want)
			}
		})
	}
}

func TestDegradedSince(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	with := func(statuses ...model.Status) *model.Job {
		job := &model.Job{MinMember: 2}
		for _, status := range statuses {
			job.Tasks = append(job.Tasks, &model.Task{Placement: model.Placement{Status: status}})
		}
		return job
	}
	for name, c := range map[string]struct {
		job    *model.Job
		placed int32
		before *metav1.Time
		whole  bool
		want   *metav1.Time
	}{
		"lost a member":                      {with(model.Running), 2, nil, true, &now},
		"lost it before":                     {with(model.Running), 1, &before, true, &before},
		"another one comes":                  {with(model.Running, model.Binding), 1, &before, true, &before},
		"complete again":                     {with(model.Running, model.Bound), 1, &before, true, nil},
		"lost surplus":                       {with(model.Running, model.Running), 3, nil, true, nil},
		"its minimum was raised":             {with(model.Running), 1, nil, true, nil},
		"an interrupted start":               {with(model.Running), 2, nil, false, nil},
		"nothing is left":                    {with(model.Pending), 2, &before, true, nil},
		"one has succeeded, one was lost":    {with(model.Succeeded, model.Pending), 2, nil, true, &now},
		"ended, one of them without success": {with(model.Succeeded, model.Failed), 2, nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			status := v1alpha1.PodGroupStatus{Placed: c.placed, DegradedSince: c.before}
			if got := DegradedSince(c.job, status, c.whole, now); !got.Equal(c.want) {
				t.Errorf("degraded since %v, want %v", got, c.want)
			}
		})
	}
}
