package allocate

import (
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// allocateNominated starts a job for which others were evicted, as soon as there is idle capacity for it, there or elsewhere.
// Until then the nomination is kept, as long as what leaves will free capacity for the whole of it. It returns false when that
// no longer is so: the job is then tried like all others, with the capacity it has left.
func (r *cycle) allocateNominated(job *model.Job) bool {
	session := r.session
	if !belowMinimum(session, job) {
		session.ReleaseNominations(job)
		return true
	}
	trial := place.New(session.Ask(job, model.Idle), r.largest, &r.budget)
	if refusal := session.ValidateJob(job); refusal != nil {
		// A job that is left alone for a moment, since a bind has failed, has paid for its capacity all the same.
		if session.Snapshot.JobBackoff[job.Key] != refusal || !trial.NominationsSuffice() {
			session.ReleaseNominations(job)
		} else {
			r.admit(job, job.Tasks)
		}
		session.Refuse(job, refusal)
		return true
	}
	refusal := r.place(job, trial)
	if refusal == nil {
		return true
	}
	if refusal == engine.Deferred {
		session.Refuse(job, refusal)
		return true
	}
	if trial.NominationsSuffice() {
		waits := place.WaitingForVictims(session.Snapshot, job)
		// The plugin that refuses for now may agree later without an event, and may be all that is in the way.
		if !refusal.Until.IsZero() {
			waits.Until, waits.Note = refusal.Until, refusal.String()
		}
		session.Refuse(job, waits)
		r.admit(job, job.Tasks) // a plan for a job above may take what is nominated to it
		return true
	}
	session.ExpireNominations(job)
	return false
}

// giveBack releases what was nominated to a job that could not start with it, when no action can make a new plan with it: its
// equals may have that capacity before a lower job starts. In a paused queue no job may.
func (r *cycle) giveBack(job *model.Job) {
	session := r.session
	if session.IsExpired(job) && session.Refusal(job) != engine.Deferred && !session.MayPreempt(job) &&
		session.Snapshot.QueueRefusal(job) == nil {
		session.ReleaseNominations(job)
	}
}
