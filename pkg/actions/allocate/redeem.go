package allocate

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/start"
)

// redeem starts a job for which others were evicted, as soon as there is idle room for it, there or elsewhere. Until then the
// promise is kept, as long as what leaves will make room for the whole of it. It returns false when that is not so any more: the
// job waits for its turn like all others, with the room it has left.
func (r *run) redeem(job *model.Job) bool {
	session := r.session
	if !short(session, job) {
		session.GiveBack(job)
		return true
	}
	trial := start.New(session, job, r.largest, &r.budget)
	if refusal := session.ValidateJob(job); refusal != nil {
		// A job that is left alone for a moment, since a bind has failed, has paid for its room all the same.
		if session.Snapshot.Held[job.Key] != refusal || !trial.Stands() {
			session.GiveBack(job)
		}
		session.Refuse(job, refusal)
		return true
	}
	refusal := r.place(job, trial)
	if refusal == nil {
		return true
	}
	if refusal == deferred {
		session.Refuse(job, refusal)
		return true
	}
	if trial.Stands() {
		waits := start.Waits(session.Snapshot, job)
		if slices.ContainsFunc(trial.Members(), session.Fleeting) { // whoever it is may agree without a sign, and be the only one in the way
			waits.Expires, waits.Note = true, refusal.String()
		}
		session.Refuse(job, waits)
		return true
	}
	session.Lapse(job)
	return false
}
