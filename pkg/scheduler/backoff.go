package scheduler

import (
	"time"

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
	refusal *model.Refusal
	until   time.Time
	delay   time.Duration
}

// failed holds the job back, longer than the last time.
func (b backoff) failed(key model.JobKey, refusal *model.Refusal, now time.Time) {
	delay := min(longestHold, max(firstHold, 2*b[key].delay))
	b[key] = hold{refusal: refusal, until: now.Add(delay), delay: delay}
}

// succeeded forgets the job's failures.
func (b backoff) succeeded(key model.JobKey) { delete(b, key) }

// held returns the jobs that are held back at the moment, and when the first of them is not any more. It drops what has
// been forgiven for long.
func (b backoff) held(now time.Time) (refusals map[model.JobKey]*model.Refusal, wake time.Time) {
	refusals = map[model.JobKey]*model.Refusal{}
	for key, hold := range b {
		switch {
		case hold.until.After(now):
			refusals[key] = hold.refusal
			if wake.IsZero() || hold.until.Before(wake) {
				wake = hold.until
			}
		case now.Sub(hold.until) > longestHold:
			delete(b, key)
		}
	}
	return refusals, wake
}
