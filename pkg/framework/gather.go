package framework

import "slices"

// Colocation is a NodeScorer that may want gangs to be gathered. Combined: one is enough.
type Colocation interface {
	NodeScorer
	// PrefersColocation reports whether the wish of pods to be near each other has a weight. Actions ask before they look for a
	// domain that holds a whole gang whose members prefer to share one.
	PrefersColocation() bool
}

// PrefersColocation reports whether gangs whose members prefer to share a domain are to be gathered in one.
func (s *Session) PrefersColocation() bool {
	return slices.ContainsFunc(s.slots.nodeScore, func(scorer NodeScorer) bool {
		gatherer, ok := scorer.(Colocation)
		return ok && gatherer.PrefersColocation()
	})
}
