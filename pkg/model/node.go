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
	charge := n.Charge(task)
	if task.Status == Pipelined {
		n.Pipelined = others(n.Pipelined, charge)
		return
	}
	n.Idle = idle(n.Idle, charge)
	if task.ReleasesResources() {
		n.Releasing = others(n.Releasing, charge)
	}
}

// Charge returns what a task takes of the node while it is there.
func (n *Node) Charge(task *Task) Resources { return task.Request }

// Used returns what the tasks that hold capacity take of a resource.
func (n *Node) Used(position int) int64 { return n.Allocatable.At(position) - n.Idle.At(position) }

// UsedWithDefaults returns the same with what scores count for containers without a request.
func (n *Node) UsedWithDefaults(position int) int64 {
	used := n.Used(position)
	if position < len(n.NonZeroRequested) {
		used += n.NonZeroRequested[position]
	}
	return used
}

// Unnominated returns how much of a resource is idle or being released, and not nominated, whether or not it is held for others.
func (n *Node) Unnominated(position int) int64 {
	return n.Idle.At(position) + n.Releasing.At(position) - n.Pipelined.At(position)
}

// FitsUnheld reports whether a request fits into what is idle, whether or not that is nominated or held for others.
func (n *Node) FitsUnheld(request Resources) bool { return n.Idle.Copies(request) > 0 }

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
