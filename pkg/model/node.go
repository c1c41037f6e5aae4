package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Node is one node and the room on it.
//
// Invariant: Idle = Allocatable − Σ requests of Tasks that hold room; Releasing = Σ requests of the Releasing tasks that
// are not stuck; Promised = Σ requests of the Promised tasks; Kept = Σ requests of the holds that the snapshot's viewer must
// not touch. Idle is negative where more runs than the node now offers.
type Node struct {
	// The books; what is read most often stands first, close together.
	Idle        Resources
	Allocatable Resources
	// NonZeroRequested is the sum over the tasks that hold room.
	NonZeroRequested NonZeroDefaults
	// Index is the node's place in Snapshot.Nodes. Changed is the number of its last change in the journal, Altered that of
	// the last one of the node itself.
	Index                  int
	Changed, ObjectChanged uint64
	Releasing              Resources
	Pipelined              Resources
	Reserved               Resources

	Name string
	// Object is the node as the API server knows it, never changed.
	Object *corev1.Node

	// Isolated are the node's isolated CPUs, never changed; nil when it has none. Stale tells that its agent is not heard of,
	// without which no pod may be given any.
	Isolated     *isolated.Topology
	AgentExpired bool

	// Tasks are the tasks on the node, of all schedulers, by UID.
	Tasks []*Task
	// Invalid says why the node takes no task at all, such as an unreadable allocatable; nil when it may.
	Invalid *Refusal
}

// GrowVectors makes room for so many dimensions in all books, next to each other.
func (n *Node) GrowVectors(width int) {
	all := make(Resources, 5*width)
	for i, book := range []*Resources{&n.Idle, &n.Allocatable, &n.Releasing, &n.Pipelined, &n.Reserved} {
		wide := all[i*width : (i+1)*width : (i+1)*width]
		copy(wide, *book)
		*book = wide
	}
}

// CapacityKind says which room on a node is meant.
type CapacityKind int8

const (
	// Idle is free now, counted on by no promise, and kept from the snapshot's viewer by no hold.
	Idle CapacityKind = iota
	// FutureIdle also has what is being released.
	FutureIdle
)

// InsufficientResource returns a dimension in which the node's room does not hold the request, or -1 when it does. A dimension that is
// not asked for is never lacking, so that a node overdrawn in memory still takes pods that want none. Which of several it
// is, is for Dimensions.Lacking to say.
//
// Invariant: nobody is placed on idle room that a promise or a hold counts on.
func (n *Node) InsufficientResource(request Resources, room CapacityKind) int {
	width := len(request)
	if width > min(len(n.Idle), len(n.Releasing), len(n.Pipelined), len(n.Reserved)) { // nobody has widened the books
		if lack := n.Shortage(request, room); len(lack) > 0 {
			return lack[0].Index
		}
		return -1
	}
	idle, releasing, promised, kept := n.Idle[:width], n.Releasing[:width], n.Pipelined[:width], n.Reserved[:width]
	for i, amount := range request { // as free does, without a call for each dimension: this is the innermost loop
		if amount <= 0 {
			continue
		}
		free := idle[i] + releasing[i] - promised[i] - kept[i]
		if amount > free || room == Idle && amount > idle[i] {
			return i
		}
	}
	return -1
}

func (n *Node) insufficient(request Resources, position int, room CapacityKind) bool {
	amount := request.At(position)
	return amount > 0 && amount > n.free(position, room)
}

// Place takes a task onto the node's books, in its current position. It reports false when the task is there already.
func (n *Node) Place(task *Task) bool {
	i, found := len(n.Tasks), false
	if i > 0 && compareUID(n.Tasks[i-1], task) >= 0 { // else it is the last, and nobody else need be looked at
		i, found = slices.BinarySearchFunc(n.Tasks, task, compareUID)
	}
	if found {
		return false
	}
	n.Tasks = slices.Insert(n.Tasks, i, task)
	n.account(task, Resources.minus, Resources.plus)
	n.accountNonZero(task, 1)
	return true
}

// Remove takes a task off the node's books; its position must be the one it was placed in. It reports false when the
// task is not there.
func (n *Node) Remove(task *Task) bool {
	i, found := slices.BinarySearchFunc(n.Tasks, task, compareUID)
	if !found {
		return false
	}
	n.Tasks = slices.Delete(n.Tasks, i, i+1)
	n.account(task, Resources.plus, Resources.minus)
	n.accountNonZero(task, -1)
	return true
}

func (n *Node) account(task *Task, idle, others func(Resources, Resources) Resources) {
	if task.Status == Pipelined {
		n.Pipelined = others(n.Pipelined, task.Request)
		return
	}
	n.Idle = idle(n.Idle, task.Request)
	if task.ReleasesResources() {
		n.Releasing = others(n.Releasing, task.Request)
	}
}

func (n *Node) accountNonZero(task *Task, sign int64) {
	if task.Status == Pipelined {
		return
	}
	for i, amount := range task.NonZeroDefaults {
		n.NonZeroRequested[i] += sign * amount
	}
}

func (r Resources) plus(other Resources) Resources {
	r.Add(other)
	return r
}

func (r Resources) minus(other Resources) Resources {
	r.Sub(other)
	return r
}

func compareUID(a, b *Task) int {
	switch {
	case a.UID < b.UID:
		return -1
	case a.UID > b.UID:
		return 1
	default:
		return 0
	}
}

// CopiesThatFit returns how many such requests the node's room holds; a request for nothing fits any number of times.
func (n *Node) CopiesThatFit(request Resources, room CapacityKind) int64 {
	fits := MaxAmount
	for i, amount := range request {
		if amount > 0 {
			fits = min(fits, max(0, n.free(i, room)/amount))
		}
	}
	return fits
}

// FreeAmount returns how much of a resource the node's room has left; negative where it is overdrawn.
func (n *Node) FreeAmount(position int, room CapacityKind) int64 { return n.free(position, room) }

func (n *Node) free(position int, room CapacityKind) int64 {
	idle := n.Idle.At(position)
	free := idle + n.Releasing.At(position) - n.Pipelined.At(position) - n.Reserved.At(position)
	if room == Idle {
		return min(free, idle)
	}
	return free
}

// Shortage is so much of a resource that is lacking for a request.
type Shortage struct {
	Index  int
	Amount int64
}

// Shortage returns what the node's room lacks to hold the request, by position; none when it holds it.
func (n *Node) Shortage(request Resources, room CapacityKind) []Shortage {
	var lack []Shortage
	for i, amount := range request {
		if amount <= 0 {
			continue
		}
		if free := n.free(i, room); amount > free {
			lack = append(lack, Shortage{Index: i, Amount: amount - free})
		}
	}
	return lack
}
