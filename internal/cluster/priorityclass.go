package cluster

import schedulingv1 "k8s.io/api/scheduling/v1"

// applyPriorityClass takes in a class; the jobs whose groups name it, also those of other projects, are filled again.
func (s *State) applyPriorityClass(class *schedulingv1.PriorityClass, deleted bool) Effect {
	before, known := s.classes[class.Name]
	if known == !deleted && before == class.Value {
		return Effect{}
	}
	delete(s.classes, class.Name)
	if !deleted {
		s.classes[class.Name] = class.Value
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
