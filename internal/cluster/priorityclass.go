package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// priorityClass is what is read of a PriorityClass.
type priorityClass struct {
	value int32
	// neverPreempts reports that no pod is evicted for a group that names the class. API servers may drop the field of the group that
	// says so, too.
	neverPreempts bool
}

// PriorityClassSeen is a new version of a PriorityClass, or its end.
type PriorityClassSeen struct {
	Class *schedulingv1.PriorityClass
	Gone  bool
}

func (e *PriorityClassSeen) object() (string, metav1.Object, bool) {
	return "PriorityClass", e.Class, e.Gone
}

// apply marks the jobs whose groups name the class to be filled again, also those of other projects.
func (e *PriorityClassSeen) apply(s *State, _ types.UID) Effect {
	before, known := s.classes[e.Class.Name]
	now := priorityClass{value: e.Class.Value, neverPreempts: e.Class.PreemptionPolicy != nil && *e.Class.PreemptionPolicy == corev1.PreemptNever}
	if known == !e.Gone && before == now {
		return Effect{}
	}
	delete(s.classes, e.Class.Name)
	if !e.Gone {
		s.classes[e.Class.Name] = now
	}
	var effect Effect
	for key, group := range s.groups {
		if group.Spec.PriorityClassName == e.Class.Name {
			s.dirty.addJob(key)
			effect = Effect{Schedule: true, Report: true}
		}
	}
	for key, spec := range s.foreign.specs {
		if spec.PriorityClassName == e.Class.Name {
			effect = effect.merge(s.readForeignAgain(key))
		}
	}
	return effect
}

// HigherClasses returns the PriorityClasses with a higher value that users may name and that allow evictions: of each value the
// first name, from low to high.
func (s *State) HigherClasses(than int32) (names []string, values []int32) {
	for _, name := range slices.Sorted(maps.Keys(s.classes)) {
		class := s.classes[name]
		if class.value <= than || class.value > mostOfUsers || class.neverPreempts {
			continue
		}
		if at, known := slices.BinarySearch(values, class.value); !known {
			names, values = slices.Insert(names, at, name), slices.Insert(values, at, class.value)
		}
	}
	return names, values
}

// mostOfUsers is the highest value of a PriorityClass that is not the system's.
const mostOfUsers = 1_000_000_000
