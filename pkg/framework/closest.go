package framework

import "github.com/tutti-sched/tutti/pkg/model"

// closestFit is the node that lacks the least for a request, as a share of it, summed over resources; the first by name of
// several. The zero closestFit has seen none.
type closestFit struct {
	node  *model.Node
	share int64
}

// observe takes note of a node that lacks something.
func (n *closestFit) observe(node *model.Node, request model.Resources, room model.CapacityKind) {
	var share int64
	for position, amount := range request {
		if amount <= 0 {
			continue
		}
		if short := amount - node.FreeAmount(position, room); short > 0 {
			share += min(short, model.MaxAmount) << 10 / amount
		}
	}
	if n.node == nil || share < n.share {
		n.node, n.share = node, share
	}
}

// addTo adds to a tally what is asked for of the resource that most nodes lack, and where the least of all is lacking. lack
// is how many nodes lack each.
func (n *closestFit) addTo(dimensions *model.ResourceIndex, tally *model.NodeDiagnosis, lack []int, request model.Resources, room model.CapacityKind) {
	most := -1
	for position, nodes := range lack {
		if nodes > 0 && (most < 0 || nodes > lack[most] || nodes == lack[most] && dimensions.Name(position) < dimensions.Name(most)) {
			most = position
		}
	}
	if most < 0 {
		return
	}
	var asks, short model.Resources
	asks.Set(most, request.At(most))
	for _, one := range n.node.Shortage(request, room) {
		short.Set(one.Index, one.Amount)
	}
	tally.SetShortage(dimensions.Format(asks), n.node.Name+", missing "+dimensions.Format(short))
}
