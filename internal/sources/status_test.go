package sources

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
		job := &model.Job{Need: model.Need{MinMember: 2}}
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
		job := &model.Job{Need: model.Need{MinMember: 2}}
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

// TestExpiresAt: a group is kept for as long as it says, from when its phase says that it has ended.
func TestExpiresAt(t *testing.T) {
	before, now := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	for phase, ended := range map[v1alpha1.PodGroupPhase]bool{
		v1alpha1.PodGroupPending: false, v1alpha1.PodGroupStarting: false, v1alpha1.PodGroupRunning: false,
		v1alpha1.PodGroupDegraded: false, v1alpha1.PodGroupSucceeded: true, v1alpha1.PodGroupFailed: true, "": false,
	} {
		if got := FinishedAt(phase, nil, now); got.Equal(&now) != ended {
			t.Errorf("%q: finished at %v", phase, got)
		}
		if got := FinishedAt(phase, &before, now); got.Equal(&before) != ended || (got == nil) == ended {
			t.Errorf("%q: finished at %v, was finished at %v", phase, got, before)
		}
	}
	for _, c := range []struct {
		kept     *int32
		finished *metav1.Time
		want     int64 // 0 for never
	}{
		{nil, &before, 0}, {new(int32(60)), nil, 0}, {new(int32(60)), &before, 160}, {new(int32(0)), &before, 100},
		{new(int32(1<<31 - 1)), &before, 100 + 1<<31 - 1},
	} {
		group := &v1alpha1.PodGroup{
			Spec: v1alpha1.PodGroupSpec{TTLSecondsAfterFinished: c.kept}, Status: v1alpha1.PodGroupStatus{FinishedAt: c.finished},
		}
		if at, ok := ExpiresAt(group); ok != (c.want > 0) || ok && at.Unix() != c.want {
			t.Errorf("%v from %v on: expires at %v, %t, want %d", c.kept, c.finished, at, ok, c.want)
		}
	}
}

// TestQueuedSince is who has ended, or lost all members, and who is deleted by the scheduler.
func TestQueuedSince(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 5, 8, minute, 0, 0, time.UTC) }
	task := func(minute int, status model.Status) *model.Task {
		return &model.Task{Created: at(minute), Placement: model.Placement{Status: status}}
	}
	both := func(status model.Status) []*model.Task { return []*model.Task{task(20, status), task(30, status)} }
	gated := both(model.Pending)
	gated[0].SchedulingGated, gated[1].SchedulingGated = true, true
	const none = -1
	for name, c := range map[string]struct {
		tasks          []*model.Task
		shown          int
		evicted, whole bool
		want           int
	}{
		"complete for the first time":             {both(model.Pending), none, false, false, 30},
		"complete before":                         {both(model.Pending), 10, false, false, 10},
		"incomplete":                              {both(model.Pending)[:1], none, false, false, none},
		"lost a member that waited":               {both(model.Pending)[:1], 10, false, false, 10},
		"lost all members that waited":            {nil, 10, false, false, none},
		"all gated again":                         {gated, 10, false, false, none},
		"starts":                                  {both(model.Binding), 10, false, false, 10},
		"runs":                                    {both(model.Running), 10, false, true, 10},
		"lost a member that ran":                  {both(model.Running)[:1], 10, false, true, 10},
		"lost all that ran, others wait":          {both(model.Pending), 10, false, true, 30},
		"deleted by a user":                       {both(model.Releasing), 10, false, true, none},
		"deleted by the scheduler":                {both(model.Releasing), 10, true, true, 10},
		"evicted, and gone":                       {nil, 10, true, false, 10},
		"evicted, and its status does not say it": {both(model.Pending), 10, true, true, 10},
		"ended":                                 {both(model.Succeeded), 10, false, true, none},
		"evicted, and failed as it was deleted": {both(model.Failed), 10, true, true, 10},
	} {
		shown := &v1alpha1.PodGroupStatus{}
		time := metav1.NewTime(at(max(0, c.shown)))
		if c.shown != none {
			shown.QueuedSince = &time
		}
		if c.whole {
			shown.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue}}
		}
		got := QueuedSince(&model.Job{Need: model.Need{MinMember: 2}, Tasks: c.tasks, Recorded: model.Recorded{Evicted: c.evicted}}, shown)
		if got == nil && c.want != none || got != nil && !got.Time.Equal(at(c.want)) {
			t.Errorf("%s: in the queue since %v, want minute %d", name, got, c.want)
		}
	}
}
