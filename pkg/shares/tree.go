package shares

import "math"

const (
	// Root is the parent of the topmost queues. It is no queue.
	Root = -1
	// MaxWeight is the largest weight. A larger one counts as this, a negative one as 0.
	MaxWeight = 1_000_000
	// NoLimit is the Limit of a queue without one.
	NoLimit = math.MaxInt64
)

// Amounts is what is given of one queue and one resource, in the unit of the resource. A negative amount counts as 0.
type Amounts struct {
	// Guarantee is what the queue can have back; it is lent while it is not used.
	Guarantee int64
	// Limit is what the queue never exceeds; NoLimit if there is none.
	Limit int64
	// Usage and Demand are those of the queue's own jobs, without those of the queues below it. Demand includes Usage.
	Usage, Demand int64
}

// Part is what is computed of one queue and one resource.
type Part struct {
	// Guarantee is the larger of the queue's own and the sum of those of its children.
	Guarantee int64
	// Usage is that of the queue and all below it.
	Usage int64
	// Demand is the queue's own, and that of its children as far as their limits allow.
	Demand int64
	// Ceiling is the demand as far as the queue's own limit allows.
	Ceiling int64
	// AboveLimit reports that the queue held more than its limit, and those of the queues below it, allow when shares were computed.
	AboveLimit bool
	// Floor is the part of the guarantee that the queue has a use for, reduced if the floors are scaled.
	Floor int64
	// Share is what the queue may count on while others want theirs, rounded up to a whole unit; scaled floors are rounded down.
	//
	// Invariant: Floor ≤ Share ≤ Ceiling.
	Share int64
}

// Tree is a tree of queues, with their amounts of each resource. The zero Tree has no queue and no resource.
//
// All amounts are exact up to 2⁶³-1, sums over siblings beyond it. What is added up for a parent, its guarantee, usage and
// demand, stays at 2⁶³-1 instead of exceeding it: more than any supply.
//
// A queue is named by the number that Add returned, a resource by its position. Either out of range panics, like an index. It is
// not safe for concurrent use, except for methods that change nothing.
type Tree struct {
	resources int
	queues    []queue
	// amounts, and parts, are ordered by queue, then by resource.
	amounts []Amounts
	parts   []Part
	// divisions are ordered by parent, the root first, then by resource.
	divisions []Division
	// supply is that of the last Compute, current reports that nothing was changed since.
	supply  []int64
	current bool
	// guaranteed reports of each resource that a queue has a guarantee of it.
	guaranteed []bool

	children []int // grouped by parent, in order
	divider  divider
	claims   []claim
	results  []result
}

type queue struct {
	parent int
	weight int64
	// first and last are where its children begin and end in Tree.children.
	first, last int
}

// Reset removes all queues. Buffers are kept, so that a tree of the same size needs no new ones.
func (t *Tree) Reset(resources int) {
	t.resources, t.current = resources, false
	t.queues, t.amounts, t.supply = t.queues[:0], t.amounts[:0], zeroed(t.supply, resources)
}

// Len returns how many queues there are.
func (t *Tree) Len() int { return len(t.queues) }

// Add adds a queue that has no amounts and no limit, and returns its number: how many there were before. The parent is Root or a
// queue. The order in which children are added changes no result.
func (t *Tree) Add(parent int, weight int64) int {
	if parent != Root {
		_ = t.queues[parent]
	}
	t.queues, t.current = append(t.queues, queue{parent: parent, weight: min(max(0, weight), MaxWeight)}), false
	for range t.resources {
		t.amounts = append(t.amounts, Amounts{Limit: NoLimit})
	}
	return len(t.queues) - 1
}

// SetAmounts changes the amounts of a queue in one resource, from the next Compute on.
func (t *Tree) SetAmounts(queue, resource int, a Amounts) {
	a = Amounts{Guarantee: max(0, a.Guarantee), Limit: max(0, a.Limit), Usage: max(0, a.Usage), Demand: max(0, a.Demand)}
	if at := t.at(queue, resource); t.amounts[at] != a {
		t.amounts[at], t.current = a, false
	}
}

// at is the position of a queue's resource in amounts and parts.
func (t *Tree) at(queue, resource int) int {
	_ = t.supply[resource]
	return queue*t.resources + resource
}

// Part returns what the last Compute found for a queue and a resource. Its Usage has what AddUsage changed since.
func (t *Tree) Part(queue, resource int) Part { return t.parts[t.at(queue, resource)] }

// Division returns how the last Compute divided a resource among the children of a queue, or of Root. It is zero, with a Rate of
// 0/0, if there are none.
func (t *Tree) Division(parent, resource int) Division { return t.divisions[t.at(parent+1, resource)] }

// Contended reports whether the last Compute found that a queue and its siblings ask for more of a resource than they can have.
func (t *Tree) Contended(queue, resource int) bool { return t.among(queue, resource).Contended }

// among is how the last Compute divided a resource among a queue and its siblings.
func (t *Tree) among(queue, resource int) *Division {
	return &t.divisions[t.at(t.queues[queue].parent+1, resource)]
}
