package lifecycle

import (
	"fmt"

	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Spare returns how many binds of a start of a job may fail without the job losing its minimum, by what the job needs now: until
// its first bind is sent, the minimum may be raised after the snapshot of the decision. With fewer than none the start must not
// begin, and why says why. newest is the job with that need, nil once nothing is known of its group; replaced reports that there
// is a PodGroup of ours in the place of it. ok is false when nothing follows from them.
func Spare(key model.JobKey, newest *model.Job, replaced bool) (spare int, why string, ok bool) {
	group := "its PodGroup"
	if key.IsForeign() {
		group = "its group"
	}
	switch {
	case replaced:
		return -1, "there is a PodGroup of its name by now", true
	case newest == nil && key.IsImplicit():
		return 0, "", false // its members are gone, and their binds were cancelled
	case newest == nil:
		return -1, group + " does not exist", true
	case newest.Invalid == nil && newest.Whole && newest.Count(onNode) > 0:
		return 0, "", false // the binds are of replacements or surplus: no minimum holds them back
	}
	stated, changed := gang.Stated(newest), group+" has changed"
	if key.IsImplicit() {
		changed = "its pods have changed"
	}
	spare = stated.Count((*model.Task).CountsTowardMinimum) - int(stated.MinMember)
	if stated.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) != nil || stated.Invalid != nil {
		spare = -1
	}
	return spare, fmt.Sprintf("%s, and needs %d members by now", changed, stated.MinMember), true
}
