package scenario

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/test/invariants"
)

// check holds the outcome of a cycle to the invariants that can be seen from outside, counted from the objects alone and
// not from the scheduler's accounting.
func (s *environment) check(o *outcome) error {
	for _, decision := range o.decisions {
		if len(decision.Binds) == 0 {
			continue
		}
		if err := s.checkMinimum(decision); err != nil {
			return err
		}
	}
	for node, fresh := range o.bound() {
		if err := s.checkRoom(node, fresh); err != nil {
			return err
		}
		if err := s.checkIsolated(node, fresh); err != nil {
			return err
		}
	}
	if err := s.checkShared(o); err != nil {
		return err
	}
	if err := s.checkVictimsShare(o); err != nil {
		return err
	}
	if err := s.checkKept(o); err != nil {
		return err
	}
	if err := s.checkNominated(o); err != nil {
		return err
	}
	if err := s.checkReserved(o); err != nil {
		return err
	}
	if err := s.checkLimits(o); err != nil {
		return err
	}
	if err := s.checkQueues(o); err != nil {
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

// checkMinimum is invariant I1: with the decision's binds, enough members have a node or have done their work.
func (s *environment) checkMinimum(decision model.Decision) error {
	if decision.Job.IsPod() || !bytes.Contains(s.configuration, []byte("name: "+gang.Name)) {
		return nil
	}
	group := s.groupOfJob(decision.Job)
	if group == nil {
		return fmt.Errorf("invariant I1: %s has no group, and is started", decision.Job)
	}
	if s.goesOn(decision.Job, group) {
		return nil
	}
	var placed invariants.Members
	for _, pod := range s.world.pods {
		if s.jobOf(pod) == decision.Job {
			placed.Add(pod, s.roleOf(pod), s.nodeOf(pod) != "")
		}
	}
	if unmet := placed.Unmet(group); unmet != "" {
		return fmt.Errorf("invariant I1: %s %s", decision.Job, unmet)
	}
	return nil
}

// goesOn reports whether the job was whole and has a member on a node, so that each of its replacements may start.
func (s *environment) goesOn(job model.JobKey, group *v1alpha1.PodGroup) bool {
	whole, left := sources.Whole(group), false
	for _, pod := range s.world.pods {
		if s.jobOf(pod) != job || !s.hasPlace(pod) {
			continue
		}
		left = left || pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded
		whole = whole || (job.IsImplicit() || job.IsForeign()) && (pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodSucceeded)
	}
	return whole && left
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

// checkRoom is invariant I3, for a node that was just given something: what the pods on it ask for is no more than it offers,
// if it offers any or no device class does in its place.
func (s *environment) checkRoom(name string, fresh map[types.UID]bool) error {
	node, pods := s.world.nodes[name], slices.Collect(maps.Values(s.world.pods))
	free, offered := invariants.Free(node, pods, func(pod *corev1.Pod) bool { return s.nodeOf(pod) == name }), node.Status.Allocatable
	for _, pod := range pods {
		if !fresh[pod.UID] {
			continue
		}
		for _, resource := range free.Lacks(pod) {
			if amount := offered[resource]; amount.IsZero() && s.byClass(resource) {
				continue
			}
			return fmt.Errorf("invariant I3: node %s has %d too little of %s", name, -free[resource], resource)
		}
	}
	return nil
}

func (s *environment) byClass(name corev1.ResourceName) bool {
	return slices.ContainsFunc(s.objects, func(object runtime.Object) bool {
		class, ok := object.(*resourceapi.DeviceClass)
		return ok && (string(name) == resourceapi.ResourceDeviceClassPrefix+class.Name ||
			class.Spec.ExtendedResourceName != nil && string(name) == *class.Spec.ExtendedResourceName)
	})
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
