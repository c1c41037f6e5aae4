package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// How long a job is left alone after the API server refused one of its binds for good; doubled with each further one.
const (
	firstHold   = time.Second
	longestHold = time.Minute
)

// backoff holds back jobs whose binds fail, so that a refusal that repeats does not become a storm of calls.
type backoff map[model.JobKey]hold

type hold struct {
	// job is the one that failed; a later one of the same name starts anew.
	job     types.UID
	refusal *model.Refusal
	until   time.Time
	delay   time.Duration
}

// failed holds the job back, longer than the last time. Failures while it is held back, such as those of the other members
// of one decision, are the same failure.
func (b backoff) failed(key model.JobKey, job types.UID, refusal *model.Refusal, now time.Time) {
	last, known := b[key]
	if known && last.job == job && last.until.After(now) {
		return
	}
	if last.job != job {
		last.delay = 0
	}
	delay := min(longestHold, max(firstHold, 2*last.delay))
	b[key] = hold{job: job, refusal: refusal, until: now.Add(delay), delay: delay}
}

// succeeded forgets the job's failures.
func (b backoff) succeeded(key model.JobKey) { delete(b, key) }

// held returns the jobs of the snapshot that are held back at the moment, and when the first of them is not any more. It
// drops jobs that are gone, and what has been forgiven for long.
func (b backoff) held(
	snapshot *model.Snapshot, now time.Time,
) (refusals map[model.JobKey]*model.Refusal, wake time.Time) {
	refusals = map[model.JobKey]*model.Refusal{}
	for key, hold := range b {
		job := snapshot.Job(key)
		switch {
		case job == nil || job.UID != hold.job || now.Sub(hold.until) > longestHold:
			delete(b, key)
		case hold.until.After(now):
			refusals[key] = hold.refusal
			if wake.IsZero() || hold.until.Before(wake) {
				wake = hold.until
			}
		}
	}
	return refusals, wake
}
