package model

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Node is one node and its accounting.
//
// Invariant: Idle = Allocatable − Σ requests of Tasks that hold capacity; Releasing = Σ requests of the Releasing tasks that
// are not overdue; Pipelined = Σ requests of the Pipelined tasks; Reserved = Σ requests of the held capacity that the
// snapshot's viewpoint must not use. Idle is negative where more runs than the node now offers.
type Node struct {
	// The accounting. Fields that are read most often come first, for locality.
	Idle        Resources
	Allocatable Resources
	// NonZeroRequested is the sum over the tasks that hold capacity.
	NonZeroRequested NonZeroDefaults
	// Index is the node's place in Snapshot.Nodes. Changed is the number of its last change in the journal, ObjectChanged
	// that of the last one of the node itself.
	Index                  int
	Changed, ObjectChanged uint64
	Releasing              Resources
	Pipelined              Resources
	Reserved               Resources

	Name string
	// Object is the node's API object, never changed.
	Object *corev1.Node

	// Isolated are the node's isolated CPUs, never changed; nil when it has none. Stale reports whether its agent's heartbeat
	// is missing, so that no pod may be assigned any.
	Isolated     *isolated.Topology
	AgentExpired bool

	// Tasks are the tasks on the node, of all schedulers, by UID.
	Tasks []*Task
	// Invalid says why no task may be placed on the node, such as an unreadable allocatable; nil when tasks may.
	Invalid *Refusal
}

// GrowVectors allocates so many dimensions for all vectors, next to each other.
func (n *Node) GrowVectors(width int) {
	all := make(Resources, 5*width)
	for i, book := range []*Resources{&n.Idle, &n.Allocatable, &n.Releasing, &n.Pipelined, &n.Reserved} {
		wide := all[i*width : (i+1)*width : (i+1)*width]
		copy(wide, *book)
		*book = wide
	}
}

// CapacityKind is idle or future idle capacity.
type CapacityKind int8

const (
	// Idle is free now, not nominated, and not held from the snapshot's viewpoint.
	Idle CapacityKind = iota
	// FutureIdle adds what is being released.
	FutureIdle
)

// InsufficientResource returns a dimension in which the node's capacity is below the request, or -1 when none is. A dimension
// that is not requested is never insufficient, so that a node overcommitted in memory still takes pods without memory.
// ResourceIndex.InsufficientResource chooses among several for messages.
//
// Invariant: no task is placed on idle capacity that is nominated or held for others.
func (n *Node) InsufficientResource(request Resources, room CapacityKind) int {
	width := len(request)
	if width > min(len(n.Idle), len(n.Releasing), len(n.Pipelined), len(n.Reserved)) { // a vector is shorter than the request
		if lack := n.Shortage(request, room); len(lack) > 0 {
			return lack[0].Index
		}
		return -1
	}
	idle, releasing, pipelined, kept := n.Idle[:width], n.Releasing[:width], n.Pipelined[:width], n.Reserved[:width]
	for i, amount := range request { // like free, without a call for each dimension: this is the innermost loop
		if amount <= 0 {
			continue
		}
		free := idle[i] + releasing[i] - pipelined[i] - kept[i]
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

// Place adds a task to the node and its accounting, in its current placement. It returns false when the task is there
// already.
func (n *Node) Place(task *Task) bool {
	i, found := len(n.Tasks), false
	if i > 0 && compareUID(n.Tasks[i-1], task) >= 0 { // else it is the last, and no search is needed
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

// Remove removes a task from the node and its accounting; its placement must be the one it was placed in. It returns false
// when the task is not there.
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

// HasReleasing reports whether anything on the node is being released, be it only a pod's place among the pods of the node.
func (n *Node) HasReleasing() bool {
	return slices.ContainsFunc(n.Releasing, func(amount int64) bool { return amount != 0 })
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

func compareUID(a, b *Task) int { return strings.Compare(string(a.UID), string(b.UID)) }

// CopiesThatFit returns how many such requests fit into the node's capacity; an empty request fits any number of times.
func (n *Node) CopiesThatFit(request Resources, room CapacityKind) int64 {
	fits := MaxAmount
	for i, amount := range request {
		if amount > 0 {
			fits = min(fits, max(0, n.free(i, room)/amount))
		}
	}
	return fits
}

// FreeAmount returns the node's free amount of a resource; negative when overcommitted.
func (n *Node) FreeAmount(position int, room CapacityKind) int64 { return n.free(position, room) }

func (n *Node) free(position int, room CapacityKind) int64 {
	idle := n.Idle.At(position)
	free := idle + n.Releasing.At(position) - n.Pipelined.At(position) - n.Reserved.At(position)
	if room == Idle {
		return min(free, idle)
	}
	return free
}

// Unclaimed returns how much of a resource is idle, and neither nominated nor kept for others.
func (n *Node) Unclaimed(position int) int64 {
	return n.Idle.At(position) - n.Pipelined.At(position) - n.Reserved.At(position)
}

// Shortage is the missing amount of a resource.
type Shortage struct {
	Index  int
	Amount int64
}

// Shortage returns the amounts that the node's capacity lacks for the request, by position; none when it fits.
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
