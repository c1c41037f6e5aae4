package lifecycle

import (
	"fmt"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Allowance is how many binds of a start may fail without the job losing its minimum. With fewer than none the start must not
// begin, and Why says why.
type Allowance struct {
	Spare int
	Why   string
}

// Recheck returns the allowance of a start as the newest group, or the pods of an implicit one, have it: until its first bind is
// sent, the minimum may be raised after the snapshot of the decision. job is the live job, group the PodGroup of its name and
// spec what its foreign object says, or its LeaderWorkerSet, nil when there is none. ok is false when nothing follows from them.
func Recheck(key model.JobKey, job *model.Job, group *v1alpha1.PodGroup, spec *sources.Spec) (allowance Allowance, ok bool) {
	_, replaced := sources.Replacement(key)
	switch {
	case replaced && group != nil:
		return Allowance{Spare: -1, Why: "there is a PodGroup of its name by now"}, true
	case key.IsForeign() && (spec == nil || job == nil || job.UID != spec.UID):
		return Allowance{Spare: -1, Why: "its group is not there any more"}, true
	case key.IsForeign():
		newest := *job
		sources.FillForeign(&newest, spec)
		return minimumOf(&newest, "its group has changed")
	case key.IsImplicit() && job == nil:
		return Allowance{}, false // its members are gone, and their binds were cancelled
	case key.IsImplicit():
		newest := *job
		sources.FillImplicit(&newest, spec)
		return minimumOf(&newest, "its pods have changed")
	case group == nil || job == nil || job.UID != group.UID:
		return Allowance{Spare: -1, Why: "its PodGroup is not there any more"}, true
	}
	newest := *job
	sources.Fill(&newest, group)
	return minimumOf(&newest, "its PodGroup has changed")
}

func minimumOf(job *model.Job, changed string) (Allowance, bool) {
	if job.Invalid == nil && job.Whole && job.Count(onNode) > 0 {
		return Allowance{}, false // the binds are of replacements or surplus: no minimum holds them back
	}
	spare := job.Count(counts) - int(job.MinMember)
	if job.FirstUnmetMinimum(counts) != nil || job.Invalid != nil {
		spare = -1
	}
	return Allowance{Spare: spare, Why: fmt.Sprintf("%s, and needs %d members by now", changed, job.MinMember)}, true
}
