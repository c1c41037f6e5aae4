package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// doubtFor is how long after its last attempt a bind whose fate is unknown stays assumed. It is far longer than the API
// server takes to answer and the watch to show it; the pod is pending again after it, and a second bind of a pod that was
// bound all the same is refused by the API server.
const doubtFor = 30 * time.Second

// doubts are the binds of which neither the API server's answer nor the watch has told what became of them.
type doubts map[types.UID]time.Time

// add begins to doubt.
func (d doubts) add(pod types.UID, now time.Time) { d[pod] = now.Add(doubtFor) }

// expired removes and returns, in order of UID, the pods about which nothing was heard for too long.
func (d doubts) expired(now time.Time) []types.UID {
	var pods []types.UID
	for pod, until := range d {
		if !until.After(now) {
			pods = append(pods, pod)
			delete(d, pod)
		}
	}
	slices.Sort(pods)
	return pods
}

// next returns when the first doubt expires; ok is false when there is none.
func (d doubts) next() (when time.Time, ok bool) {
	for _, until := range d {
		if !ok || until.Before(when) {
			when, ok = until, true
		}
	}
	return when, ok
}
