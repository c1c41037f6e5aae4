package cluster

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// offered counts how many nodes and device classes offer a resource, so that what only pods name costs nothing for each node.
type offered struct {
	// sources is how many nodes and device classes offer it; counted are those that a translator reads or writes.
	sources map[corev1.ResourceName]int
	// reported is how many nodes report it.
	reported map[corev1.ResourceName]int
	counted  map[corev1.ResourceName]bool
	// translators change requests and capacities, in this order.
	translators []model.RequestTranslator
}

// translate replaces the translators.
func (o *offered) translate(translators []model.RequestTranslator) {
	o.translators = translators
	clear(o.counted)
	for _, translator := range translators {
		for _, name := range translator.Counts() {
			o.counted[name] = true
		}
	}
}

// divide divides a request into what is offered and the rest, without amounts of zero; nil when there is none.
func (s *State) divide(request corev1.ResourceList) (offered, rest corev1.ResourceList) {
	offered = request
	for name, amount := range request {
		if model.NativeResource(name) || s.offered.counted[name] || s.offered.sources[name] > 0 {
			continue
		}
		if rest == nil {
			offered, rest = maps.Clone(request), corev1.ResourceList{}
		}
		if delete(offered, name); amount.Sign() != 0 {
			rest[name] = amount
		}
	}
	if len(rest) == 0 {
		rest = nil
	}
	return offered, rest
}

// setOffers replaces what one node or device class offers, and reads again the pods and reservations that name a resource which
// begins or ceases to be offered.
func (s *State) setOffers(before, after []corev1.ResourceName) {
	changed := map[corev1.ResourceName]bool{}
	for _, name := range after {
		if s.offered.sources[name]++; s.offered.sources[name] == 1 {
			changed[name] = true
		}
	}
	for _, name := range before {
		if s.offered.sources[name]--; s.offered.sources[name] == 0 {
			delete(s.offered.sources, name)
			changed[name] = !changed[name]
		}
	}
	for name, still := range changed {
		if !still || s.offered.counted[name] || model.NativeResource(name) {
			delete(changed, name)
		}
	}
	if len(changed) > 0 {
		s.readNaming(changed)
	}
}

// readNaming reads again the pods and reservations that name one of the resources.
func (s *State) readNaming(names map[corev1.ResourceName]bool) {
	s.readAgain(func(known *podState) bool {
		for name := range names {
			if _, there := known.unoffered[name]; there {
				return true
			}
			if position, there := s.dimensions.Find(name); there && known.task.Request.At(position) > 0 {
				return true
			}
		}
		return false
	})
	s.readReservationsAgain()
}
