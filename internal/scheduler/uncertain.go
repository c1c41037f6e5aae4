package scheduler

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// uncertainTimeout is how long after its last attempt a bind whose fate is unknown stays assumed. It is far longer than the API
// server takes to answer and the watch to show it; the pod is pending again after it, and a second bind of a pod that was
// bound after all is refused by the API server.
const uncertainTimeout = 30 * time.Second

// uncertainBinds are the binds whose result is not known: neither an answer of the API server nor the watch has shown it.
type uncertainBinds map[types.UID]uncertainBind

// uncertainBind is one of them.
type uncertainBind struct {
	job   model.JobKey
	pod   model.PodRef
	until time.Time
	// holds reports that something is reserved for the pod.
	holds bool
}

// add records an uncertain bind.
func (d uncertainBinds) add(outcome commit.Outcome, now time.Time) {
	d.keep(uncertainBind{job: outcome.Job, pod: outcome.Pod, holds: outcome.Prepared}, now)
}

// keep keeps a bind uncertain from now on, for uncertainTimeout.
func (d uncertainBinds) keep(bind uncertainBind, now time.Time) {
	bind.until = now.Add(uncertainTimeout)
	d[bind.pod.UID] = bind
}

// expired removes and returns, in order of UID, the binds whose time is over.
func (d uncertainBinds) expired(now time.Time) []uncertainBind {
	var all []uncertainBind
	for uid, one := range d {
		if !one.until.After(now) {
			all = append(all, one)
			delete(d, uid)
		}
	}
	slices.SortFunc(all, func(a, b uncertainBind) int { return cmp.Compare(a.pod.UID, b.pod.UID) })
	return all
}

// next returns when the time of the first one is over; ok is false when there is none.
func (d uncertainBinds) next() (when time.Time, ok bool) {
	for _, one := range d {
		if !ok || one.until.Before(when) {
			when, ok = one.until, true
		}
	}
	return when, ok
}
