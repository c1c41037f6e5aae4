package report

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// pruned is a desk whose API server keeps of a status only what keep leaves of it. One of which nothing is left changes no
// object.
func pruned(keep func(*commit.ForeignStatus)) *foreignDesk {
	d := newForeignDesk("g")
	d.hidden = true
	d.prune = func(status commit.ForeignStatus) {
		if keep(&status); status.Phase != "" || status.Counts != nil || status.Condition != nil {
			d.take(&status)
		}
	}
	return d
}

// TestAStatusThatIsDropped, in part or as a whole, as by a CRD that lacks the field: each change is written once, whatever the
// object shows of it, and no other writer is seen in that.
func TestAStatusThatIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		keep func(*commit.ForeignStatus)
	}{
		"nothing":     {func(*commit.ForeignStatus) {}},
		"conditions":  {func(s *commit.ForeignStatus) { s.Condition = nil }},
		"numbers":     {func(s *commit.ForeignStatus) { s.Counts = nil }},
		"all of it":   {func(s *commit.ForeignStatus) { *s = commit.ForeignStatus{} }},
		"the message": {func(s *commit.ForeignStatus) { noMessage(s) }},
		"the phase":   {func(s *commit.ForeignStatus) { s.Phase = "" }},
	} {
		d := pruned(c.keep)
		for i, step := range []struct {
			members []model.Status
			refusal *model.Refusal
		}{
			{nil, nil},
			{[]model.Status{model.Pending, model.Pending}, &model.Refusal{Code: model.InsufficientResources, Needs: 2}},
			{[]model.Status{model.Running, model.Bound}, nil},
			{[]model.Status{model.Running, model.Running}, nil},
			{[]model.Status{model.Succeeded, model.Succeeded}, nil},
		} {
			d.now = d.now.Add(time.Hour)
			d.members("g", step.members...)
			d.refuse("g", step.refusal)
			before := d.total
			for end := d.now.Add(time.Hour); d.now.Before(end); d.now = d.now.Add(time.Second) {
				d.report()
			}
			if n := d.total - before; n > 1 {
				t.Errorf("%s is dropped: %d writes of change %d", name, n, i)
			}
			d.rests(t)
		}
		if len(d.told) != 0 {
			t.Errorf("%s is dropped: events %q", name, d.told)
		}
		if shown := d.specs[volcanoKey("g")].Shown; name != "all of it" && name != "the phase" && shown.Phase != sources.VolcanoCompleted {
			t.Errorf("%s is dropped: the phase is %q", name, shown.Phase)
		}
		before := d.total // by another version of the object it is tried once more
		for range 2 {
			d.object("g", nil)
			d.report()
		}
		if n := d.total - before; n > 2 {
			t.Errorf("%s is dropped: %d writes of two versions", name, n)
		}
	}
}

func noMessage(s *commit.ForeignStatus) {
	if s.Condition != nil {
		s.Condition.Message = ""
	}
}
