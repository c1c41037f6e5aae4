package lifecycle

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Allowance is how many binds of a start may fail without the job losing its minimum. With fewer than none the start must not
// begin, and Why says why.
type Allowance struct {
	Spare int
	Why   string
}

// Recheck returns the allowance of a start of a job by what the job needs now: until its first bind is sent, the minimum may be
// raised after the snapshot of the decision. newest is the job with that need, nil once nothing is known of its group;
// replaced reports that there is a PodGroup of ours in the place of it. ok is false when nothing follows from them.
func Recheck(key model.JobKey, newest *model.Job, replaced bool) (allowance Allowance, ok bool) {
	group := "its PodGroup"
	if key.IsForeign() {
		group = "its group"
	}
	switch {
	case replaced:
		return Allowance{Spare: -1, Why: "there is a PodGroup of its name by now"}, true
	case newest == nil && key.IsImplicit():
		return Allowance{}, false // its members are gone, and their binds were cancelled
	case newest == nil:
		return Allowance{Spare: -1, Why: group + " does not exist"}, true
	case newest.Invalid == nil && newest.Whole && newest.Count(onNode) > 0:
		return Allowance{}, false // the binds are of replacements or surplus: no minimum holds them back
	}
	stated, changed := gang.Stated(newest), group+" has changed"
	if key.IsImplicit() {
		changed = "its pods have changed"
	}
	spare := stated.Count(counts) - int(stated.MinMember)
	if stated.FirstUnmetMinimum(counts) != nil || stated.Invalid != nil {
		spare = -1
	}
	return Allowance{Spare: spare, Why: fmt.Sprintf("%s, and needs %d members by now", changed, stated.MinMember)}, true
}
