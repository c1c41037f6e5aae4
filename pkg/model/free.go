package model

// CapacityKind is idle or future idle capacity.
type CapacityKind int8

const (
	// Idle is free now, not nominated, and not held from the snapshot's viewpoint.
	Idle CapacityKind = iota
	// FutureIdle adds what is being released.
	FutureIdle
)

// Free is what a node has left for one question: its capacity of a kind, less what is nominated to tasks and what is held from
// the snapshot's viewpoint. It reads the accounting when it is asked, so that it is for the question that is open.
type Free struct {
	node *Node
	kind CapacityKind
}

// Free returns what the node has left of a kind from the snapshot's viewpoint.
func (n *Node) Free(kind CapacityKind) Free { return Free{node: n, kind: kind} }

// Of returns how much of a resource is left; negative when overcommitted.
func (f Free) Of(position int) int64 {
	idle := f.node.idle.At(position)
	free := idle + f.node.releasing.At(position) - f.node.pipelined.At(position) - f.node.reserved.At(position)
	if f.kind == Idle {
		return min(free, idle)
	}
	return free
}

// All returns how much is left of so many resources.
func (f Free) All(dimensions int) Resources {
	all := make(Resources, dimensions)
	for position := range all {
		all[position] = f.Of(position)
	}
	return all
}

// Fits reports whether a request fits. A dimension that is not requested is never short, so that a node overcommitted in memory
// still takes pods without memory. ResourceIndex.InsufficientResource says which dimension is short, for messages.
//
// Invariant: no task is placed on idle capacity that is nominated or held for others.
func (f Free) Fits(request Resources) bool {
	n, width := f.node, len(request)
	if width > min(len(n.idle), len(n.releasing), len(n.pipelined), len(n.reserved)) { // a vector is shorter than the request
		return f.Copies(request) > 0
	}
	idle, releasing, pipelined, kept := n.idle[:width], n.releasing[:width], n.pipelined[:width], n.reserved[:width]
	for i, amount := range request { // like Of, without a call for each dimension: this is the innermost loop
		if amount <= 0 {
			continue
		}
		free := idle[i] + releasing[i] - pipelined[i] - kept[i]
		if amount > free || f.kind == Idle && amount > idle[i] {
			return false
		}
	}
	return true
}

// Copies returns how many such requests fit; an empty request fits MaxAmount times.
func (f Free) Copies(request Resources) int64 {
	copies := MaxAmount
	for i, amount := range request {
		if amount > 0 {
			copies = min(copies, max(0, f.Of(i)/amount))
		}
	}
	return copies
}

// Shortage is the missing amount of a resource.
type Shortage struct {
	Index  int
	Amount int64
}

// Short returns the amounts that are missing for a request, by position; none when it fits.
func (f Free) Short(request Resources) (short []Shortage) {
	for i, amount := range request {
		if amount <= 0 {
			continue
		}
		if free := f.Of(i); amount > free {
			short = append(short, Shortage{Index: i, Amount: amount - free})
		}
	}
	return short
}

// Missing returns a request less what is idle now, and neither nominated nor held from the viewpoint; less than zero where there
// is more than that.
func (f Free) Missing(request Resources) Resources {
	missing := make(Resources, len(request))
	for i, amount := range request {
		if amount > 0 {
			missing[i] = amount - f.node.idle.At(i) + f.node.pipelined.At(i) + f.node.reserved.At(i)
		}
	}
	return missing
}
