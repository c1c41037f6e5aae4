package scenario

import (
	"bytes"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// check holds the outcome of a cycle to the invariants that can be seen from outside, counted from the objects alone and
// not from the scheduler's accounting.
func (s *environment) check(o *outcome) error {
	for node, fresh := range o.bound() {
		if err := s.checkIsolated(node, fresh); err != nil {
			return err
		}
	}
	if bytes.Contains(s.configuration, []byte("name: predicates")) {
		if err := s.checkDeviceCounts(o); err != nil {
			return err
		}
	}
	if err := s.checkReserved(o); err != nil {
		return err
	}
	if err := s.checkLimits(o); err != nil {
		return err
	}
	return s.checkWaiting(o)
}

// bound returns the pods that the cycle gave to each node.
func (o *outcome) bound() map[string]map[types.UID]bool {
	all := map[string]map[types.UID]bool{}
	for _, decision := range o.decisions {
		for _, bind := range decision.Binds {
			if all[bind.Node] == nil {
				all[bind.Node] = map[types.UID]bool{}
			}
			all[bind.Node][bind.Pod.UID] = true
		}
	}
	return all
}

func groupOf(pod *corev1.Pod) string {
	if name := pod.Labels[v1alpha1.LabelPodGroup]; name != "" {
		return name
	}
	return pod.Annotations[v1alpha1.AnnotationKubeBatchGroup]
}

func (s *environment) hasPlace(pod *corev1.Pod) bool {
	switch {
	case pod.Status.Phase == corev1.PodFailed:
		return false
	case pod.Status.Phase == corev1.PodSucceeded:
		return true
	}
	return pod.DeletionTimestamp == nil && s.nodeOf(pod) != ""
}

func (s *environment) nodeOf(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	return s.coming[pod.UID]
}

func (s *environment) byClass(name corev1.ResourceName) bool {
	for _, class := range s.world.devices.classes {
		if slices.Contains(resourcesOfClass(class), name) {
			return true
		}
	}
	return false
}

// checkWaiting is invariant I7: each pod that could be bound and is not has a reason why.
func (s *environment) checkWaiting(o *outcome) error {
	for _, pod := range s.world.pods {
		waits := pod.Spec.SchedulerName == "tutti" && pod.Status.Phase == corev1.PodPending &&
			pod.DeletionTimestamp == nil && s.nodeOf(pod) == ""
		if !waits {
			continue
		}
		if o.refusals[s.jobOf(pod)] == nil && len(pod.Spec.SchedulingGates) == 0 {
			return fmt.Errorf("invariant I7: pod %s/%s waits, and none says why", pod.Namespace, pod.Name)
		}
	}
	return nil
}
