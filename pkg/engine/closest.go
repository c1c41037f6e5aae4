package engine

import "github.com/tutti-sched/tutti/pkg/model"

// closestFit is the node that lacks the least for a request, as a share of it, summed over resources; the first by name of
// several. Only nodes on which pods that end or are evicted could make room for it count. The zero closestFit has seen none.
type closestFit struct {
	node  *model.Node
	free  model.Free
	share int64
	// small and large report that a node was seen that is too small, or large enough, when it is empty.
	small, large bool
}

// observe takes note of a node that lacks something. The node counts if refused, which is asked of few nodes, returns nothing, or
// what waiting or an eviction may change.
func (n *closestFit) observe(node *model.Node, free model.Free, request model.Resources, refused func(*model.Node) *model.Refusal) {
	var share int64
	for position, amount := range request {
		if amount <= 0 {
			continue
		}
		if amount > node.Allocatable().At(position) {
			n.small = true
			return
		}
		if short := amount - free.Of(position); short > 0 {
			share += min(short, model.MaxAmount) << 10 / amount
		}
	}
	n.large = true
	if n.node != nil && share >= n.share {
		return
	}
	if refusal := refused(node); refusal == nil || refusal.Evictable || !refusal.Until.IsZero() {
		n.node, n.free, n.share = node, free, share
	}
}

// addTo adds to a tally what is asked for of the resource that most nodes lack, and where the least of all is lacking. lack
// is how many nodes lack each.
func (n *closestFit) addTo(dimensions *model.ResourceIndex, tally *model.NodeDiagnosis, lack []int, request model.Resources) {
	most := -1
	for position, nodes := range lack {
		if nodes > 0 && (most < 0 || nodes > lack[most] || nodes == lack[most] && dimensions.Name(position) < dimensions.Name(most)) {
			most = position
		}
	}
	if most < 0 {
		return
	}
	var asks model.Resources
	asks.Set(most, request.At(most))
	closest := ""
	switch {
	case n.node != nil:
		var short model.Resources
		for _, one := range n.free.Short(request) {
			short.Set(one.Index, one.Amount)
		}
		closest = "closest: node " + n.node.Name + ", missing " + dimensions.Format(short)
	case n.small && !n.large:
		closest = "the nodes that lack capacity are too small even when empty"
	}
	tally.SetShortage(dimensions.Format(asks), closest)
}
