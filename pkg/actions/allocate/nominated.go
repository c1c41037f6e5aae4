package allocate

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
)

// allocateNominated starts a job for which others were evicted, as soon as there is idle capacity for it, there or elsewhere.
// Until then the nomination is kept, as long as what leaves will free capacity for the whole of it. It returns false when that
// is not so any more: the job waits for its turn like all others, with the capacity it has left.
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
		if slices.ContainsFunc(trial.Members(), session.HasTransientRefusal) {
			waits.Transient, waits.Note = true, refusal.String()
		}
		session.Refuse(job, waits)
		return true
	}
	r.outrankingIn(job).add(job, refusal) // its turn comes later, and those of lower jobs may come before
	session.ExpireNominations(job)
	return false
}
