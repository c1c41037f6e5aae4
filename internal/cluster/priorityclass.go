package cluster

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// priorityClass is what is read of a PriorityClass.
type priorityClass struct {
	value int32
	// neverPreempts reports that no pod is evicted for a group that names the class. API servers may drop the field of the group that
	// says so, too.
	neverPreempts bool
}

// applyPriorityClass takes in a class; the jobs whose groups name it, also those of other projects, are filled again.
func (s *State) applyPriorityClass(class *schedulingv1.PriorityClass, deleted bool) Effect {
	before, known := s.classes[class.Name]
	now := priorityClass{value: class.Value, neverPreempts: class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever}
	if known == !deleted && before == now {
		return Effect{}
	}
	delete(s.classes, class.Name)
	if !deleted {
		s.classes[class.Name] = now
	}
	var effect Effect
	for key, group := range s.groups {
		if group.Spec.PriorityClassName == class.Name {
			s.dirtyJobs[key] = struct{}{}
			effect = Effect{Schedule: true, Report: true}
		}
	}
	for key, spec := range s.foreign.specs {
		if spec.PriorityClassName == class.Name {
			effect = effect.merge(s.readForeignAgain(key))
		}
	}
	return effect
}
