package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// How long a job is left alone after the API server refused one of its binds for good: hardly at all the first time, since another
// node may do, then minBackoff, doubled with each further one.
const (
	noHold      = 100 * time.Millisecond
	minBackoff  = time.Second
	longestHold = time.Minute
)

// How long a job is left alone whose pods had to be deleted; doubled with each further time.
const (
	minUndoBackoff = 30 * time.Second
	longestRest    = 10 * time.Minute
)

// jobBackoff holds back jobs whose binds fail, so that a refusal that repeats does not become a storm of calls.
type jobBackoff map[model.JobKey]jobEntry

type jobEntry struct {
	// job is the one that failed; a later one of the same name starts anew.
	job     types.UID
	refusal *model.Refusal
	until   time.Time
	// delay is how long the last hold was, rest how long the last one after pods were deleted; zero when there was none.
	delay, rest time.Duration
}

// failed holds the job back, longer than the last time. Failures while it is held back, such as those of the other members
// of one decision, are the same failure.
func (b jobBackoff) failed(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	b.hold(key, job, refusal, noHold, now)
}

// hold is failed, for so long at least.
func (b jobBackoff) hold(key model.JobKey, job types.UID, refusal *model.Refusal, least time.Duration, now time.Time) {
	last := b[key]
	if last.job != job {
		last = jobEntry{}
	}
	if last.until.After(now) {
		return
	}
	delay := least
	if last.delay > 0 {
		delay = min(longestHold, max(minBackoff, 2*last.delay))
	}
	b[key] = jobEntry{job: job, refusal: refusal, until: now.Add(delay), delay: delay, rest: last.rest}
}

// quarantine holds a job back over which somebody has panicked, also one that is held back already: from then on that is why.
func (b jobBackoff) quarantine(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	last := b[key]
	if last.job != job || !last.until.After(now) || last.refusal.Code == model.Quarantined {
		b.hold(key, job, refusal, minBackoff, now)
		return
	}
	last.refusal = refusal
	if least := now.Add(minBackoff); last.until.Before(least) {
		last.until = least
	}
	b[key] = last
}

// startUndone holds the job back after its pods were deleted, longer than the last time.
func (b jobBackoff) startUndone(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	last := b[key]
	if last.job != job {
		last = jobEntry{}
	}
	rest := min(longestRest, max(minUndoBackoff, 2*last.rest))
	b[key] = jobEntry{job: job, refusal: refusal, until: now.Add(rest), delay: last.delay, rest: rest}
}

// afterUndo tells whether the job is left alone since its pods had to be deleted.
func (b jobBackoff) afterUndo(key model.JobKey, job types.UID, now time.Time) bool {
	last := b[key]
	return last.job == job && last.rest > 0 && last.until.After(now)
}

// quarantined tells whether the job is left alone since somebody has panicked over it.
func (b jobBackoff) quarantined(key model.JobKey, job types.UID, now time.Time) bool {
	last := b[key]
	return last.job == job && last.until.After(now) && last.refusal.Code == model.Quarantined
}

// reason returns why the last bind of the job failed, nil when none did lately.
func (b jobBackoff) reason(key model.JobKey, job types.UID) *model.Refusal {
	if last := b[key]; last.job == job {
		return last.refusal
	}
	return nil
}

// succeeded forgets that binds of the job have failed, but not that its pods had to be deleted.
func (b jobBackoff) succeeded(key model.JobKey) {
	last := b[key]
	if last.rest == 0 {
		delete(b, key)
		return
	}
	last.delay = 0
	b[key] = last
}

// active returns the jobs of the snapshot that are held back at the moment, and when the first of them is not any more. It
// drops jobs that are gone, and what has been forgiven for long.
func (b jobBackoff) active(
	snapshot *model.Snapshot, now time.Time,
) (refusals map[model.JobKey]*model.Refusal, wake time.Time) {
	refusals = map[model.JobKey]*model.Refusal{}
	for key, hold := range b {
		job := snapshot.Job(key)
		switch {
		case job == nil || job.UID != hold.job || now.Sub(hold.until) > max(longestHold, 2*hold.rest):
			delete(b, key)
		case hold.until.After(now):
			refusals[key] = hold.refusal
			wake = sooner(wake, hold.until)
		}
	}
	return refusals, wake
}
