package allocate

import (
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// failures remembers, for members of one shape, how many found room when a job of them did not get enough. The answer holds
// for the next job of that shape as long as nothing is placed: it needs at least one more than that, or it is tried.
//
// Invariant: a job is refused from memory only if trying it would fail, for want of the same.
type failures map[model.Shape]failure

type failure struct {
	fit     int64
	refusal *model.Refusal
}

// foretell returns the refusal that trying the job would end in, nil when that has to be seen.
func (f failures) foretell(job *model.Job) *model.Refusal {
	shape, ok := uniform(job)
	known, seen := f[shape]
	if !ok || !seen || int64(job.MinMember) <= known.fit {
		return nil
	}
	foretold := *known.refusal
	foretold.Needs = int64(job.MinMember)
	return &foretold
}

// remember keeps what a failed try of the job has shown, if that says something about other jobs: all its members ask the
// same, of nothing but nodes and their room.
func (f failures) remember(session *framework.Session, job *model.Job, refusal *model.Refusal) {
	shape, ok := uniform(job)
	if !ok || refusal.Needs != int64(job.MinMember) || len(refusal.Causes) == 0 {
		return
	}
	for _, task := range job.Tasks {
		if !session.Plain(task) {
			return
		}
	}
	f[shape] = failure{fit: refusal.Has, refusal: refusal}
}

// forget begins anew, because something was placed.
func (f failures) forget() { clear(f) }

// uniform returns the shape of the job's members if they have one shape, no role, and nothing but waiting to do.
func uniform(job *model.Job) (shape model.Shape, ok bool) {
	if len(job.Tasks) == 0 || len(job.Roles) > 0 {
		return shape, false
	}
	shape = job.Tasks[0].Shape
	for _, task := range job.Tasks {
		if task.Status != model.Pending || task.Gated || task.Refused != nil || task.Role != "" || task.Shape != shape {
			return shape, false
		}
	}
	return shape, true
}
