package framework

import "slices"

// Gatherer is a NodeScorer that may want gangs to be gathered. Combined: one is enough.
type Gatherer interface {
	NodeScorer
	// Gathers tells whether the wish of pods to be near each other has a weight. Actions ask before they look for a domain
	// that holds a whole gang whose members prefer to share one.
	Gathers() bool
}

// Gathers tells whether gangs whose members prefer to share a domain are to be gathered in one.
func (s *Session) Gathers() bool {
	return slices.ContainsFunc(s.slots.nodeScore, func(scorer NodeScorer) bool {
		gatherer, ok := scorer.(Gatherer)
		return ok && gatherer.Gathers()
	})
}
