package suggest

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// ShareKey is what two jobs must have in common for one advice to do for both, as long as nothing changes in the cluster.
type ShareKey struct {
	code             model.Code
	shape            model.Shape
	role             string
	members, minimum int
	priority         int
	neverPreempts    bool
}

// ShareKeyOf returns what the job has in common with others, whose advice is then the same; ok is false when it may be on its
// own. That is a job whose members differ or ask for more than a node and its room, or that has room kept for it.
func ShareKeyOf(session *framework.Session, job *model.Job, code model.Code) (same ShareKey, ok bool) {
	if len(job.Roles) > 0 || len(job.Tasks) == 0 || job.BelowMinimum {
		return same, false
	}
	first := job.Tasks[0]
	for _, task := range job.Tasks {
		if task.Status != model.Pending || task.SchedulingGated || task.Invalid != nil || task.Nominated != "" || kindOf(task) != kindOf(first) ||
			!session.FitsByResourcesOnly(task) {
			return same, false
		}
	}
	keeps := func(hold model.HeldCapacity) bool { return hold.Job == job.Key }
	if slices.ContainsFunc(session.Snapshot.Held(), keeps) {
		return same, false
	}
	return ShareKey{
		code: code, shape: first.Shape, role: first.Role, members: len(job.Tasks), minimum: int(job.MinMember),
		priority: int(job.Priority), neverPreempts: job.NeverPreempts,
	}, true
}
