package simulation

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/internal/commit"
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
			j.violated("I6", "the bind of %s is on its way and is not assumed any more", call.Pod)
			return
		}
	}
}

// assumed tells whether a bind is assumed, or the watch has told what became of the pod.
func assumed(p *process, call commit.Call) bool {
	if p.state.Assumed(call.Pod.UID) {
		return true
	}
	pod := p.state.Pod(call.Pod.UID)
	return pod == nil || pod.Spec.NodeName != "" || finished(pod)
}

// holdsTheLease is I24: no call leaves without the Lease.
func (j *invariantChecker) holdsTheLease(p *process, call commit.Call) {
	if j.lease.holder != p {
		j.violated("I24", "%s of %s leaves %s, which does not hold the Lease", call.Kind, call.Pod, p)
	}
}
