package cluster

import (
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
		assigned, err := isolated.AssignedTo(pod)
		if err != nil {
			return nil // see conflicts
		}
		return assigned
	}
}

// sameCPUCharge reports whether a later version of a pod with equal annotations is charged for the same CPUs. A pod that asks
// for isolated CPUs and was bound without any takes ordinary ones. An assignment that another client wrote before the pod was
// bound counts from the bind on. A pod with a bind in flight is charged for what it is given.
func sameCPUCharge(before *podState, after *corev1.Pod) bool {
	_, claims := after.Annotations[isolated.AssignedAnnotation]
	return !before.chargedAtBind() && (before.task.Pod.Spec.NodeName == after.Spec.NodeName || !isolated.WantsIsolated(after) && !claims)
}

// chargedAtBind reports whether a pod with a bind in flight is charged for what it was given then, isolated CPUs or none,
// whatever it has come to ask for.
func (r *podState) chargedAtBind() bool {
	return r.bind != "" && (r.assignedCPUs != nil || isolated.WantsIsolated(r.task.Pod))
}

// sameCPUs reports whether two versions of a pod hold the same isolated CPUs.
func sameCPUs(a, b *isolated.Assignment) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CPUs == b.CPUs
}
