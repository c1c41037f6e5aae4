package scheduler

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How long no plan counts on a pod that the API server refused to evict, and siblings of one that it refused to bind come first; doubled
// with each further refusal.
const (
	minEvictionBackoff = 10 * time.Second
	longestSpare       = 5 * time.Minute
)

// evictionBackoff are the pods that the API server refused to evict, such as for the sake of a disruption budget that allows less than
// it said. They are no victims for a while, so that the next plan is another one.
type evictionBackoff map[types.UID]evictionEntry

type evictionEntry struct {
	refusal *model.Refusal
	until   time.Time
	delay   time.Duration
}

// add spares a pod, longer than the last time.
func (s evictionBackoff) add(outcome commit.Outcome, now time.Time) {
	s.hold(outcome.Pod.UID, &model.Refusal{
		Code:   model.EvictionRefused,
		Detail: "pod " + outcome.Pod.String() + " could not be evicted: " + outcome.Message,
	}, now)
}

func (s evictionBackoff) hold(pod types.UID, refusal *model.Refusal, now time.Time) {
	delay := min(longestSpare, max(minEvictionBackoff, 2*s[pod].delay))
	s[pod] = evictionEntry{refusal: refusal, until: now.Add(delay), delay: delay}
}

// at tells whether a pod is spared at the moment.
func (s evictionBackoff) at(pod types.UID, now time.Time) bool { return s[pod].until.After(now) }

// now returns the pods that are spared at the moment, and when the first of them is not any more. It drops pods that are gone,
// and what has been forgiven for long.
func (s evictionBackoff) now(state *cluster.State, now time.Time) (refusals map[types.UID]*model.Refusal, wake time.Time) {
	refusals = map[types.UID]*model.Refusal{}
	for uid, spare := range s {
		switch {
		case state.Pod(uid) == nil || now.Sub(spare.until) > longestSpare:
			delete(s, uid)
		case spare.until.After(now):
			refusals[uid] = spare.refusal
			if wake.IsZero() || spare.until.Before(wake) {
				wake = spare.until
			}
		}
	}
	return refusals, wake
}
