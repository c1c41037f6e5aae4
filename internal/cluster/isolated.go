package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// isolated returns the isolated CPUs that a pod holds on its node: those that stand on it, or those that it is being bound
// with; nil when it holds none. What stands on a pod that is not bound means nothing.
func (r *podState) isolated() *isolated.Assignment {
	switch pod := r.task.Pod; {
	case !r.task.Status.HasNode():
		return nil
	case pod.Spec.NodeName == "":
		return r.assignedCPUs
	default:
		return r.heldCPUs
	}
}

// heldCPUs returns the isolated CPUs that stand on a bound pod, as far as they count: those that its node publishes, while agents
// enforce them. Users can write to their own pods: what else stands there takes no ordinary CPU off a pod's request. nil when
// none counts; what is wrong is for conflicts to say.
func (s *State) heldCPUs(pod *corev1.Pod) *isolated.Assignment {
	node := s.nodes[pod.Spec.NodeName]
	if node == nil || s.leases.mode == LeasesUnwatched {
		return nil
	}
	held, err := isolated.AssignedTo(pod)
	if err != nil || held == nil {
		return nil
	}
	return held.Within(isolatedOn(node))
}

// readHoldersAgain reads the pods of a node again that are assigned CPUs, since it publishes others now.
func (s *State) readHoldersAgain(name string) {
	for _, entry := range slices.Collect(maps.Values(s.pods.held[name])) {
		if r := entry.record; r != nil && !r.finished() && assigned(r.task.Pod) {
			s.put(entry, s.readPod(r.task.Pod, r))
		}
	}
}

// sameCPUCharge reports whether a later version of a pod with equal annotations is charged for the same CPUs. A pod that asks
// for isolated CPUs and was bound without any takes ordinary ones. An assignment that another client wrote before the pod was
// bound counts from the bind on. A pod with a bind in flight is charged for what it is given.
func sameCPUCharge(before, after *podState) bool {
	return !before.chargedAtBind() &&
		(before.task.Pod.Spec.NodeName == after.task.Pod.Spec.NodeName || !after.task.Asks.Wants() && !assigned(after.task.Pod))
}

// chargedAtBind reports whether a pod with a bind in flight is charged for what it was given then, isolated CPUs or none,
// whatever it has come to ask for.
func (r *podState) chargedAtBind() bool {
	return r.bind != "" && (r.assignedCPUs != nil || r.task.Asks.Wants())
}

// assigned reports whether isolated CPUs are written on a pod, even if what is written is invalid.
func assigned(pod *corev1.Pod) bool {
	_, there := pod.Annotations[isolated.AssignedAnnotation]
	return there
}

// sameCPUs reports whether two versions of a pod hold the same isolated CPUs.
func sameCPUs(a, b *isolated.Assignment) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CPUs == b.CPUs
}
