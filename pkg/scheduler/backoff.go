package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// How long a job is left alone after the API server refused one of its binds for good: hardly at all the first time, since another
// node may do, then firstHold, doubled with each further one.
const (
	noHold      = 100 * time.Millisecond
	firstHold   = time.Second
	longestHold = time.Minute
)

// How long a job is left alone whose pods had to be deleted; doubled with each further time.
const (
	firstRest   = 30 * time.Second
	longestRest = 10 * time.Minute
)

// backoff holds back jobs whose binds fail, so that a refusal that repeats does not become a storm of calls.
type backoff map[model.JobKey]hold

type hold struct {
	// job is the one that failed; a later one of the same name starts anew.
	job     types.UID
	refusal *model.Refusal
	until   time.Time
	// delay is how long the last hold was, rest how long the last one after pods were deleted; zero when there was none.
	delay, rest time.Duration
}

// failed holds the job back, longer than the last time. Failures while it is held back, such as those of the other members
// of one decision, are the same failure.
func (b backoff) failed(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	b.hold(key, job, refusal, noHold, now)
}

// hold is failed, for so long at least.
func (b backoff) hold(key model.JobKey, job types.UID, refusal *model.Refusal, least time.Duration, now time.Time) {
	last := b[key]
	if last.job != job {
		last = hold{}
	}
	if last.until.After(now) {
		return
	}
	delay := least
	if last.delay > 0 {
		delay = min(longestHold, max(firstHold, 2*last.delay))
	}
	b[key] = hold{job: job, refusal: refusal, until: now.Add(delay), delay: delay, rest: last.rest}
}

// quarantine holds a job back over which somebody has panicked, also one that is held back already: from then on that is why.
func (b backoff) quarantine(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	last := b[key]
	if last.job != job || !last.until.After(now) || last.refusal.Code == model.Quarantined {
		b.hold(key, job, refusal, firstHold, now)
		return
	}
	last.refusal = refusal
	if least := now.Add(firstHold); last.until.Before(least) {
		last.until = least
	}
	b[key] = last
}

// quarantineWith holds a job back with an alike one over which something has panicked: for firstHold, if it was not held back lately, and
// for as long as the other if something has panicked over both.
func (b backoff) quarantineWith(key model.JobKey, job types.UID, other hold, now time.Time) {
	switch last, known := b[key]; {
	case !known || last.job != job:
		refusal := *other.refusal
		refusal.Detail += ", over another job that asks for the same"
		b[key] = hold{job: job, refusal: &refusal, until: now.Add(firstHold)}
	case last.refusal.Code == model.Quarantined && last.delay > 0:
		last.until, last.delay = other.until, other.delay
		b[key] = last
	}
}

// undone holds the job back after its pods were deleted, longer than the last time.
func (b backoff) undone(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	last := b[key]
	if last.job != job {
		last = hold{}
	}
	rest := min(longestRest, max(firstRest, 2*last.rest))
	b[key] = hold{job: job, refusal: refusal, until: now.Add(rest), delay: last.delay, rest: rest}
}

// resting tells whether the job is left alone since its pods had to be deleted.
func (b backoff) resting(key model.JobKey, job types.UID, now time.Time) bool {
	last := b[key]
	return last.job == job && last.rest > 0 && last.until.After(now)
}

// quarantined tells whether the job is left alone since somebody has panicked over it.
func (b backoff) quarantined(key model.JobKey, job types.UID, now time.Time) bool {
	last := b[key]
	return last.job == job && last.until.After(now) && last.refusal.Code == model.Quarantined
}

// reason returns why the last bind of the job failed, nil when none did lately.
func (b backoff) reason(key model.JobKey, job types.UID) *model.Refusal {
	if last := b[key]; last.job == job {
		return last.refusal
	}
	return nil
}

// succeeded forgets that binds of the job have failed, but not that its pods had to be deleted.
func (b backoff) succeeded(key model.JobKey) {
	last := b[key]
	if last.rest == 0 {
		delete(b, key)
		return
	}
	last.delay = 0
	b[key] = last
}

// held returns the jobs of the snapshot that are held back at the moment, and when the first of them is not any more. It
// drops jobs that are gone, and what has been forgiven for long.
func (b backoff) held(
	snapshot *model.Snapshot, now time.Time,
) (refusals map[model.JobKey]*model.Refusal, wake time.Time) {
	refusals = make(map[model.JobKey]*model.Refusal, len(b))
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
