package model

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MaxAmount is the largest amount of one resource that a request or a node may name, in the unit of its dimension: one PiB,
// or 10¹² cores. The sum of 8,192 such amounts fits in an int64.
const MaxAmount int64 = 1 << 50

// ProvidedByDRA is the allocatable of a resource that the node does not report because a DeviceClass provides it; DRA
// accounts for it, device by device. In the accounting of nodes it is unlimited. No node can report so much.
const ProvidedByDRA int64 = MaxAmount + 1

// The dimensions that every vector has, at these positions.
const (
	CPU              = iota // thousandths of a core
	Memory                  // bytes
	EphemeralStorage        // bytes
	Pods                    // count
)

// ResourceIndex gives every resource name a position in the Resources vectors of one scheduler. Positions are only added, so
// that an older vector stays valid: missing positions are zero.
//
// It is not safe for concurrent use: the goroutine that owns the cluster state owns it.
type ResourceIndex struct {
	names []corev1.ResourceName
	index map[corev1.ResourceName]int
}

// NewDimensions returns the dimensions every cluster has: cpu, memory, ephemeral-storage and pods.
func NewDimensions() *ResourceIndex {
	d := &ResourceIndex{index: map[corev1.ResourceName]int{}}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
	} {
		d.Index(name)
	}
	return d
}

// Index returns the position of a resource and adds it when it is new.
func (d *ResourceIndex) Index(name corev1.ResourceName) int {
	if i, ok := d.index[name]; ok {
		return i
	}
	i := len(d.names)
	d.names = append(d.names, name)
	d.index[name] = i
	return i
}

// Find returns the position of a resource, and whether it has one.
func (d *ResourceIndex) Find(name corev1.ResourceName) (position int, ok bool) {
	position, ok = d.index[name]
	return position, ok
}

// Name returns the resource at a position, empty when there is none.
func (d *ResourceIndex) Name(position int) corev1.ResourceName {
	if position < 0 || position >= len(d.names) {
		return ""
	}
	return d.names[position]
}

// InsufficientResource is Node.InsufficientResource for messages: of several dimensions it returns a device, by name, before
// the last of those that every node has, since a missing device is more informative than a missing core. It does not depend
// on which resource was seen first.
func (d *ResourceIndex) InsufficientResource(node *Node, request Resources, room CapacityKind) int {
	named := -1
	for i := Pods + 1; i < len(request); i++ {
		if node.insufficient(request, i, room) && (named < 0 || d.Name(i) < d.Name(named)) {
			named = i
		}
	}
	for i := Pods; i >= 0 && named < 0; i-- {
		if node.insufficient(request, i, room) {
			named = i
		}
	}
	return named
}

// Clone returns a copy that shares nothing with d, for another goroutine.
func (d *ResourceIndex) Clone() *ResourceIndex {
	return &ResourceIndex{names: slices.Clone(d.names), index: maps.Clone(d.index)}
}

// Len returns the number of dimensions known by now.
func (d *ResourceIndex) Len() int { return len(d.names) }

// Vector reads a resource list: CPU in thousandths of a core, everything else in whole units, rounded up. ok is false, and
// bad names a resource, when an amount is negative or above MaxAmount; the vector then holds the amount cut to that range, so
// that such a pod, if it runs, fills its node in the accounting.
func (d *ResourceIndex) Vector(list corev1.ResourceList) (vector Resources, bad corev1.ResourceName, ok bool) {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names) // positions of new resources must not depend on map order
	ok = true
	for _, name := range names {
		amount, counted := amountOf(name, list[name])
		if !counted {
			bad, ok = name, false
		}
		vector.Set(d.Index(name), amount)
	}
	return vector, bad, ok
}

// List converts a vector to a resource list, the inverse of Vector; zeros are left out.
func (d *ResourceIndex) List(vector Resources) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i, amount := range vector {
		name := d.Name(i)
		switch {
		case amount == 0:
		case i == CPU:
			list[name] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case i == Memory, i == EphemeralStorage, strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			list[name] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			list[name] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return list
}

// amountOf compares before it converts: a quantity beyond int64 converts to an arbitrary number.
func amountOf(name corev1.ResourceName, quantity resource.Quantity) (amount int64, ok bool) {
	most, convert := resource.NewQuantity(MaxAmount, resource.DecimalSI), quantity.Value
	if name == corev1.ResourceCPU {
		most, convert = resource.NewMilliQuantity(MaxAmount, resource.DecimalSI), quantity.MilliValue
	}
	switch {
	case quantity.Sign() < 0:
		return 0, false
	case quantity.Cmp(*most) > 0:
		return MaxAmount, false
	}
	return convert(), true
}

// Resources is a vector of amounts, one per dimension. A position beyond its end is zero, so that nil is the empty request
// and vectors of different lengths compare.
type Resources []int64

// At returns the amount at a position.
func (r Resources) At(position int) int64 {
	if position >= len(r) {
		return 0
	}
	return r[position]
}

// Set writes the amount at a position and grows the vector as needed.
func (r *Resources) Set(position int, amount int64) {
	r.grow(position + 1)
	(*r)[position] = amount
}

// Add adds other to r in place.
func (r *Resources) Add(other Resources) {
	r.grow(len(other))
	for i, amount := range other {
		(*r)[i] += amount
	}
}

// Sub subtracts other from r in place; the result may be negative.
func (r *Resources) Sub(other Resources) {
	r.grow(len(other))
	for i, amount := range other {
		(*r)[i] -= amount
	}
}

func (r *Resources) grow(n int) {
	for len(*r) < n {
		*r = append(*r, 0)
	}
}

// Clone returns a copy that shares nothing with r.
func (r Resources) Clone() Resources { return slices.Clone(r) }

// Copies returns how many such requests the amounts hold; a request for nothing fits MaxAmount times.
func (r Resources) Copies(request Resources) int64 {
	copies := MaxAmount
	for i, amount := range request {
		if amount > 0 {
			copies = min(copies, max(0, r.At(i)/amount))
		}
	}
	return copies
}

// Equal reports whether both vectors hold the same amounts, whatever their lengths.
func (r Resources) Equal(other Resources) bool {
	for i := range max(len(r), len(other)) {
		if r.At(i) != other.At(i) {
			return false
		}
	}
	return true
}
