package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/model"
)

// filterState is what filters have found out about one pod. kube-scheduler has one state for all that it asks about a pod, so
// that a score reads what a filter has written; here filters and scores belong to plugins that do not know each other.
type filterState struct {
	pod    types.UID
	state  fwk.CycleState
	filter func(*model.Node) bool
}

// SaveFilterState keeps what the filters have found out about a pod, for the scores that build on it: their state, and what
// reports whether they let the pod on a node, after which the state says what for. It holds until the session changes, and
// for the last pod only; a nil state is nothing. The session's goroutine calls it.
func (p *Plugins) SaveFilterState(pod types.UID, state fwk.CycleState, passes func(*model.Node) bool) {
	p.found = filterState{pod: pod, state: state, filter: passes}
}

// FilterState returns what was kept last if it is about the pod; a nil state otherwise. The session's goroutine calls it.
func (p *Plugins) FilterState(pod types.UID) (state fwk.CycleState, passes func(*model.Node) bool) {
	if p.found.pod != pod {
		return nil, nil
	}
	return p.found.state, p.found.filter
}

// HasDeviceChoice reports whether a device claim of the pod would rather have some devices than others. It may be called on any
// goroutine.
func (p *Plugins) HasDeviceChoice(pod *corev1.Pod) bool {
	if len(pod.Spec.ResourceClaims) == 0 {
		return false
	}
	for _, name := range p.claimsOf(pod).devices {
		claim, err := p.claims.Get(pod.Namespace, name)
		if err != nil {
			continue // DynamicResources lets the pod on no node
		}
		for i := range claim.Spec.Devices.Requests {
			if len(claim.Spec.Devices.Requests[i].FirstAvailable) > 0 {
				return true
			}
		}
	}
	return false
}
