package simulation

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lease"
)

// isBoundOnce is I5: of all binds of a pod one takes effect.
func (j *invariantChecker) isBoundOnce(call commit.Call) {
	if n := j.server.bound[call.Pod.UID]; n > 1 {
		j.violated("I5", "pod %s is bound %d times", call.Pod, n)
	}
}

// isAssumed is I6: the effect of a bind is in the state before the call leaves.
func (j *invariantChecker) isAssumed(p *process, call commit.Call) {
	if writesTo(call) == "" && call.Kind != commit.CallEvent { // an event may be about a group that does not exist
		j.violated("I5", "%s of %s names no UID", call.Kind, call.Pod)
	}
	if call.Kind == commit.CallBind && !assumed(p, call) {
		j.violated("I6", "the bind of %s leaves and is not assumed", call.Pod)
	}
}

// staysAssumed is I6, too: the effect stays in the state until the watch shows it or the call has failed.
func (j *invariantChecker) staysAssumed(p *process) {
	for _, id := range slices.Sorted(maps.Keys(p.inFlight)) {
		if call := p.inFlight[id]; call.Kind == commit.CallBind && !assumed(p, call) {
			j.violated("I6", "the bind of %s is in flight and is not assumed any more", call.Pod)
			return
		}
	}
}

// assumed reports whether a bind is assumed, or the watch has shown what became of the pod.
func assumed(p *process, call commit.Call) bool {
	if p.state.Assumed(call.Pod.UID) {
		return true
	}
	pod := p.state.Pod(call.Pod.UID)
	return pod == nil || pod.Spec.NodeName != "" || finished(pod)
}

// leader is the process that holds the Lease and has not ended, nil when there is none.
func (j *invariantChecker) leader() *process {
	for _, p := range j.all {
		if !p.dead && p.String() == j.lease.holder() {
			return p
		}
	}
	return nil
}

// holdsTheLease is I24: no call leaves without the Lease, nor so late that it may outlast it, nor while one of another
// process may be under way. What has passed is counted by the true time.
func (j *invariantChecker) holdsTheLease(p *process, call commit.Call) {
	now, end := j.queue.now, j.lease.renewed.Add(lease.Duration)
	why := ""
	switch {
	case j.lease.holder() != p.String():
		why = fmt.Sprintf("the Lease is held by %q", j.lease.holder())
	case now.Add(lease.RequestTimeout).After(end):
		why = fmt.Sprintf("its Lease ends in %s", end.Sub(now))
	case now.Before(j.lease.free):
		why = fmt.Sprintf("what the last leader sent may be under way for %s more", j.lease.free.Sub(now))
	}
	for _, other := range j.all {
		if other != p && other.arrives.After(now) {
			why = fmt.Sprintf("a request of %s is under way", other)
		}
	}
	if why != "" {
		j.violated("I24", "%s of %s leaves %s, and %s", call.Kind, call.Pod, p, why)
	}
}
