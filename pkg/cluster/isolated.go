package cluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// isolated returns the isolated CPUs that a pod holds on its node: those that stand on it, or those that it is being bound with;
// nil when it holds none. What stands on a pod that is not bound means nothing.
func (r *record) isolated() *isolated.Assignment {
	switch pod := r.task.Pod; {
	case !r.task.Status.OnNode():
		return nil
	case pod.Spec.NodeName == "":
		return r.given
	default:
		assigned, err := isolated.AssignedTo(pod)
		if err != nil {
			return nil // see conflicts
		}
		return assigned
	}
}

// samePool tells whether two versions of a pod with equal annotations are charged for the same CPUs: one that asks for isolated
// ones and was bound without any takes ordinary ones.
func samePool(a, b *corev1.Pod) bool {
	return a.Spec.NodeName == b.Spec.NodeName || !isolated.Asks(b)
}

// sameCPUs tells whether two versions of a pod hold the same isolated CPUs.
func sameCPUs(a, b *isolated.Assignment) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CPUs == b.CPUs
}
