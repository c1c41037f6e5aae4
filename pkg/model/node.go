package model

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/pkg/isolated"
)

// Node is one node and its accounting.
//
// Invariant: idle = allocatable − leaving − Σ charges of Tasks that hold capacity; releasing = leaving + Σ charges of the
// Releasing tasks that are not overdue, without what these keep; pipelined = Σ charges of the Pipelined tasks; reserved = Σ
// requests of the held capacity that the snapshot's viewpoint must not use. idle is negative where more runs than the node now
// offers.
type Node struct {
	// The accounting. Fields that are read most often come first, for locality.
	idle        Resources
	allocatable Resources
	// nonZeroRequested is the sum over the tasks that hold capacity.
	nonZeroRequested NonZeroDefaults
	// Index is the node's place in Snapshot.Nodes. Changed is the number of its last change in the journal, ObjectChanged
	// that of the last one of the node itself.
	Index                  int
	Changed, ObjectChanged uint64
	releasing              Resources
	pipelined              Resources
	reserved               Resources
	// leaving is what tasks that are gone held of the node and have not given back yet, as do devices of their claims.
	leaving Resources

	Name string
	// Object is the node's API object, never changed.
	Object *corev1.Node

	// Isolated are the node's isolated CPUs, never changed; nil when it has none. AgentExpired reports whether its agent's
	// heartbeat is missing, so that no pod may be assigned any.
	Isolated     *isolated.Topology
	AgentExpired bool

	// Uncounted says, by resource, why devices of a DeviceClass are not counted there, never changed; nil when all are.
	Uncounted map[corev1.ResourceName]string

	// Devices selects among the node's devices of ResourceSlices, never changed; nil when it has none.
	Devices SelectableDevices

	// OldKubelet reports a kubelet that starts pods without the devices that stand for their extended resources.
	OldKubelet bool

	// Tasks are the tasks on the node, of all schedulers, by UID.
	Tasks []*Task
	// Invalid says why no task may be placed on the node, such as an unreadable allocatable; nil when tasks may.
	Invalid *Refusal
}

// SelectableDevices are the devices of a node.
type SelectableDevices interface {
	// Select reports whether some devices of the selectors' class satisfy them, and whether all do. Safe for concurrent use.
	Select(by DeviceSelectors) (some, all bool)
}

// NewNode returns a node without tasks that offers so much.
func NewNode(name string, object *corev1.Node, allocatable Resources) *Node {
	n := &Node{Name: name, Object: object}
	n.SetAllocatable(allocatable, len(allocatable))
	return n
}

// SetAllocatable sets what the node offers, in so many dimensions at least; never within a session.
func (n *Node) SetAllocatable(allocatable Resources, width int) {
	n.idle.Sub(n.allocatable)
	n.idle.Add(allocatable)
	n.allocatable = allocatable
	n.GrowVectors(max(width, len(n.idle))) // which copies them
}

// SetLeaving sets what tasks that are gone still hold of the node, never changed; never within a session.
func (n *Node) SetLeaving(leaving Resources) {
	n.idle.Add(n.leaving)
	n.idle.Sub(leaving)
	n.releasing.Sub(n.leaving)
	n.releasing.Add(leaving)
	n.leaving = leaving
}

// Leaving returns what tasks that are gone still hold of the node, which must not be changed; nil is nothing.
func (n *Node) Leaving() Resources { return n.leaving }

// GrowVectors allocates so many dimensions for all vectors, next to each other.
func (n *Node) GrowVectors(width int) {
	all := make(Resources, 5*width)
	for i, book := range []*Resources{&n.idle, &n.allocatable, &n.releasing, &n.pipelined, &n.reserved} {
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
	n.account(task, 1)
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
	n.account(task, -1)
	return true
}

// account adds a task to the accounting, or takes it off.
func (n *Node) account(task *Task, sign int64) {
	charge := n.Charge(task)
	if task.Status == Pipelined {
		n.pipelined.addTimes(charge, sign)
		return
	}
	n.idle.addTimes(charge, -sign)
	if task.ReleasesResources() {
		n.releasing.addTimes(charge, sign)
		if task.Devices != nil {
			n.releasing.addTimes(task.Devices.Kept, -sign)
		}
	}
	for i, amount := range task.NonZeroDefaults {
		n.nonZeroRequested[i] += sign * amount
	}
}

// Charge returns what a task takes of the node while it is there.
func (n *Node) Charge(task *Task) Resources { return task.Request }

// Allocatable returns what the node offers, which must not be changed.
func (n *Node) Allocatable() Resources { return n.allocatable }

// Idle returns how much of a resource the tasks on the node leave, whether or not it is nominated or held for others; negative
// where more runs than the node now offers.
func (n *Node) Idle(position int) int64 { return n.idle.At(position) }

// Amounts is a copy of a node's accounting, by its invariant: for documents and tests.
type Amounts struct{ Idle, Releasing, Pipelined, Reserved Resources }

// Amounts returns a copy of the accounting.
func (n *Node) Amounts() Amounts {
	return Amounts{Idle: n.idle.Clone(), Releasing: n.releasing.Clone(), Pipelined: n.pipelined.Clone(), Reserved: n.reserved.Clone()}
}

// Used returns what the tasks that hold capacity take of a resource.
func (n *Node) Used(position int) int64 { return n.allocatable.At(position) - n.idle.At(position) }

// UsedWithDefaults returns the same with what scores count for containers without a request.
func (n *Node) UsedWithDefaults(position int) int64 {
	used := n.Used(position)
	if position < len(n.nonZeroRequested) {
		used += n.nonZeroRequested[position]
	}
	return used
}

// Unnominated returns how much of a resource is idle or being released, and not nominated, whether or not it is held for others.
func (n *Node) Unnominated(position int) int64 {
	return n.idle.At(position) + n.releasing.At(position) - n.pipelined.At(position)
}

// IsKept reports whether some of a resource is nominated, or held for others.
func (n *Node) IsKept(position int) bool {
	return n.pipelined.At(position) > 0 || n.reserved.At(position) > 0
}

// FitsUnheld reports whether a request fits into what is idle, whether or not that is nominated or held for others.
func (n *Node) FitsUnheld(request Resources) bool { return n.idle.Copies(request) > 0 }

// HasReleasing reports whether anything on the node is being released, be it only a pod's place among the pods of the node.
func (n *Node) HasReleasing() bool {
	return slices.ContainsFunc(n.releasing, func(amount int64) bool { return amount != 0 })
}

func compareUID(a, b *Task) int { return strings.Compare(string(a.UID), string(b.UID)) }
