package report

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// newNativeDesk has groups of Kubernetes, which have an empty status from their beginning.
func newNativeDesk(names ...string) *foreignDesk {
	d := newDeskOf(model.SourceNative)
	for _, name := range names {
		d.object(name, func(s *sources.Spec) { s.Shown.HasStatus = true })
	}
	return d
}

const placed = "g PodGroupInitiallyScheduled=True Scheduled: the minimum is bound"

// TestTheLifeOfAGroupOfKubernetes is two writes: that it does not fit, and that it was placed, which stays.
func TestTheLifeOfAGroupOfKubernetes(t *testing.T) {
	d := newNativeDesk("g")
	d.rests(t)
	d.members("g", model.Pending)
	d.refuse("g", &model.Refusal{Code: model.NotEnoughMembers, Needs: 2, Has: 1})
	d.rests(t)
	d.members("g", model.Pending, model.Pending)
	d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2, Has: 1})
	d.expect(t, "g PodGroupInitiallyScheduled=False Unschedulable: needs 2, 1 would fit")
	d.members("g", model.Binding, model.Bound)
	d.expect(t, "")
	d.members("g", model.Bound, model.Bound)
	d.expect(t, placed)
	for _, states := range [][]model.Status{{model.Running, model.Running}, {model.Failed, model.Pending}, {model.Pending}, {}} {
		if d.members("g", states...); len(states) > 0 {
			d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2})
		}
		d.rests(t)
	}
	if d.total != 2 || len(d.told) != 0 {
		t.Errorf("%d writes, events %q", d.total, d.told)
	}
}

// TestWhatTheConditionOfAGroupOfKubernetesSays has the reasons that the API knows.
func TestWhatTheConditionOfAGroupOfKubernetesSays(t *testing.T) {
	const waits = "g PodGroupInitiallyScheduled=False "
	pending := []model.Status{model.Pending, model.Pending}
	for _, c := range []struct {
		shown   string // the status of the condition before
		members []model.Status
		code    model.Code
		want    string
	}{
		{"", nil, "", ""},
		{"", pending, "", ""},
		{"", pending, model.NotEnoughMembers, ""},
		{"", pending, model.SchedulingGated, ""},
		{"False", pending, model.NotEnoughMembers, waits + "Unschedulable: needs 2, 1 exist"},
		{"", pending, model.NodesFiltered, waits + "Unschedulable: needs 2, 1 would fit"},
		{"", pending, model.WaitingForVictims, waits + "Unschedulable: "},
		{"", pending, model.InvalidGroup, waits + "SchedulerError: "},
		{"", pending, model.InvalidRequest, waits + "SchedulerError: "},
		{"", pending, model.Malformed, waits + "SchedulerError: "},
		{"", pending, model.Quarantined, waits + "SchedulerError: "},
		{"", pending, model.CycleFailed, waits + "SchedulerError: "},
		{"True", pending, model.InsufficientResources, ""},
		{"", []model.Status{model.Running, model.Pending}, model.InsufficientResources, ""}, // it was whole
		{"", []model.Status{model.Succeeded, model.Running}, "", placed},
		{"False", []model.Status{model.Succeeded, model.Succeeded}, "", placed},
		{"", []model.Status{model.Succeeded, model.Failed}, "", ""},
	} {
		d := newNativeDesk()
		d.object("g", func(s *sources.Spec) {
			if s.Shown.HasStatus = true; c.shown != "" {
				s.Shown.HasConditions, s.Shown.Type, s.Shown.Status, s.Shown.Reason = true, "PodGroupInitiallyScheduled", c.shown, "R"
			}
		})
		if d.members("g", c.members...); c.code != "" {
			d.refuse("g", &model.Refusal{Code: c.code, Needs: 2, Has: 1})
		}
		if got := d.report(); got != c.want {
			t.Errorf("%q, %v, %s: %q, want %q", c.shown, c.members, c.code, got, c.want)
		}
		d.rests(t)
	}
	d := newNativeDesk("g")
	d.object("g", func(s *sources.Spec) { s.Contradiction = "why" })
	d.rests(t) // without members it may be one of another scheduler
	job := d.members("g", model.Bound, model.Bound)
	job.Invalid = d.specs[d.key("g")].Refusal()
	d.refuse("g", job.Invalid)
	d.expect(t, "g PodGroupInitiallyScheduled=False SchedulerError: PodGroup.scheduling.k8s.io ns/g: why")
}

// TestAnotherWriterOfTheConditionOfKubernetes that puts back what was written is left alone the second time. One that writes that
// the group was placed is believed.
func TestAnotherWriterOfTheConditionOfKubernetes(t *testing.T) {
	d := newNativeDesk("g")
	d.members("g", model.Bound, model.Bound)
	for range 1000 {
		d.report()
		d.object("g", func(s *sources.Spec) {
			s.Shown.Status, s.Shown.Reason, s.Shown.Message = "False", "Unschedulable", "theirs"
		})
		d.now = d.now.Add(time.Second)
	}
	if d.report(); d.total != 2 || len(d.told) != 1 || d.told[0] != "StatusContested scheduling.k8s.io/v1beta1 g" {
		t.Errorf("%d writes, events %q", d.total, d.told)
	}
	d.rests(t)

	d = newNativeDesk("g")
	d.members("g", model.Pending, model.Pending)
	d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2})
	d.report()
	for _, message := range []string{"theirs", "theirs too"} {
		d.object("g", func(s *sources.Spec) { s.Shown.Status, s.Shown.Reason, s.Shown.Message = "True", "Scheduled", message })
		d.rests(t)
	}
	if d.total != 1 || len(d.told) != 0 {
		t.Errorf("%d writes, events %q", d.total, d.told)
	}
}

// TestThePatchOfAGroupOfKubernetes has what its condition has, and says when that turned.
func TestThePatchOfAGroupOfKubernetes(t *testing.T) {
	d := newNativeDesk("g")
	d.object("g", func(s *sources.Spec) {
		s.Shown.HasConditions, s.Shown.Type, s.Shown.Status, s.Shown.At = true, "PodGroupInitiallyScheduled", "False", 1
	})
	written := func() *commit.ForeignStatus {
		t.Helper()
		writes, _ := d.Report(d.snapshot, d.refusals, d.now, func(_ model.JobKey, look func()) { look() })
		if len(writes) != 1 {
			t.Fatalf("%+v", writes)
		}
		status := writes[0].(*commit.ForeignStatus)
		d.take(status)
		return status
	}
	d.members("g", model.Pending, model.Pending)
	d.refuse("g", &model.Refusal{Code: model.InsufficientResources, Needs: 2})
	c := written().Condition
	if c.Replaces != "PodGroupInitiallyScheduled" || c.Was != "False" || c.At != 1 || !c.LastTransitionTime.IsZero() || c.TransitionID != "" {
		t.Errorf("other words: %+v", c)
	}
	d.members("g", model.Bound, model.Bound)
	status := written()
	if c = status.Condition; c.Was != "False" || !c.LastTransitionTime.Time.Equal(d.now) || c.TransitionID != "" || status.Counts != nil || !status.Subresource {
		t.Errorf("it turned: %+v of %+v", c, status)
	}
}
