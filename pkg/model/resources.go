package model

import (
	"maps"
	"math"
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
	// Unoffered counts how often a request needs resources that no node offers. A position for each such name would make
	// the vectors of every node longer, and any pod may name resources. No node has capacity here.
	Unoffered
)

// ResourceIndex gives the resources that nodes, device classes and plugins offer or count a position in the Resources vectors
// of one scheduler. Positions are only added, so that an older vector stays valid: missing positions are zero. What only pods
// name gets none: any user may name any number of resources.
//
// It is not safe for concurrent use: the goroutine that owns the cluster state owns it.
type ResourceIndex struct {
	names []corev1.ResourceName
	index map[corev1.ResourceName]int
	// unoffered is what one at position Unoffered stands for; nil when that is not known.
	unoffered corev1.ResourceList
}

// NewDimensions returns the dimensions every cluster has: cpu, memory, ephemeral-storage, pods, and what no node offers.
func NewDimensions() *ResourceIndex {
	d := &ResourceIndex{index: map[corev1.ResourceName]int{}}
	for _, name := range []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods,
	} {
		d.Index(name)
	}
	d.names = append(d.names, "") // Unoffered
	return d
}

// For returns the index as the task's vectors are to be read: with the names of what it requests and no node offers.
func (d *ResourceIndex) For(task *Task) *ResourceIndex {
	if len(task.Unoffered) == 0 {
		return d
	}
	return &ResourceIndex{names: d.names, index: d.index, unoffered: task.Unoffered}
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

// Alias lets a name stand for the position of another resource, or for its own again when both names are the same. No position is
// lost: a name that stood for its own position before has it again then.
func (d *ResourceIndex) Alias(name, of corev1.ResourceName) {
	if name != of {
		d.index[name] = d.Index(of)
	} else if own := slices.Index(d.names, name); own >= 0 {
		d.index[name] = own
	} else {
		delete(d.index, name)
	}
}

// Find returns the position of a resource, and whether it has one.
func (d *ResourceIndex) Find(name corev1.ResourceName) (position int, ok bool) {
	position, ok = d.index[name]
	return position, ok
}

// Name returns the resource at a position, empty when there is none. At Unoffered it is the first by name, and empty unless
// the index is that for a task.
func (d *ResourceIndex) Name(position int) corev1.ResourceName {
	if position < 0 || position >= len(d.names) {
		return ""
	}
	if position == Unoffered && len(d.unoffered) > 0 {
		return slices.Min(slices.Collect(maps.Keys(d.unoffered)))
	}
	return d.names[position]
}

// InsufficientResource returns a dimension of which less is free than a request has, -1 when it fits. Of several dimensions it
// returns a device, by name, before the last of those that every node has, since a missing device is more informative than a
// missing core. It does not depend on which resource was seen first.
func (d *ResourceIndex) InsufficientResource(free Free, request Resources) int {
	short := func(i int) bool { return request.At(i) > 0 && request.At(i) > free.Of(i) }
	named := -1
	for i := Pods + 1; i < len(request); i++ {
		if short(i) && (named < 0 || d.Name(i) < d.Name(named)) {
			named = i
		}
	}
	for i := Pods; i >= 0 && named < 0; i-- {
		if short(i) {
			named = i
		}
	}
	return named
}

// Clone returns a copy that shares nothing with d, for another goroutine.
func (d *ResourceIndex) Clone() *ResourceIndex {
	return &ResourceIndex{names: slices.Clone(d.names), index: maps.Clone(d.index), unoffered: d.unoffered}
}

// Len returns the number of dimensions known by now.
func (d *ResourceIndex) Len() int { return len(d.names) }

// Vector reads a resource list: CPU in thousandths of a core, everything else in whole units, rounded up. ok is false, and
// bad names a resource, when an amount is negative or above MaxAmount; the vector then holds the amount cut to that range, so
// that such a pod, if it runs, fills its node in the accounting. New names get positions.
func (d *ResourceIndex) Vector(list corev1.ResourceList) (vector Resources, bad corev1.ResourceName, ok bool) {
	ok = true
	for _, name := range slices.Sorted(maps.Keys(list)) { // positions of new resources must not depend on map order
		amount, counted := Amount(name, list[name])
		if !counted {
			bad, ok = name, false
		}
		position := d.Index(name)
		vector.Set(position, min(vector.At(position)+amount, MaxAmount)) // two names may stand for one position
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
		case i == Unoffered:
			for name, each := range d.unoffered {
				list[name] = *resource.NewQuantity(each.Value()*min(amount, MaxAmount/each.Value()), resource.DecimalSI)
			}
		default:
			list[name] = d.quantity(i, amount)
		}
	}
	return list
}

// ListOf converts listed amounts to a resource list, with the zeros.
func (d *ResourceIndex) ListOf(amounts []ListedAmount) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, one := range amounts {
		list[d.Name(one.Position)] = d.quantity(one.Position, one.Amount)
	}
	return list
}

func (d *ResourceIndex) quantity(position int, amount int64) resource.Quantity {
	switch {
	case position == CPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case position == Memory, position == EphemeralStorage, strings.HasPrefix(string(d.Name(position)), corev1.ResourceHugePagesPrefix):
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

// Amount returns a quantity of a resource in the unit of its dimension, cut to what can be counted; ok is false when it had to be
// cut. It compares before it converts: a quantity beyond int64 converts to an arbitrary number.
func Amount(name corev1.ResourceName, quantity resource.Quantity) (amount int64, ok bool) {
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
func (r *Resources) Add(other Resources) { r.addTimes(other, 1) }

// Sub subtracts other from r in place; the result may be negative.
func (r *Resources) Sub(other Resources) { r.addTimes(other, -1) }

func (r *Resources) addTimes(other Resources, times int64) {
	r.grow(len(other))
	for i, amount := range other {
		(*r)[i] += times * amount
	}
}

// AddCapped is Add for totals, of which none is negative. A negative amount adds nothing: a node that is short of something
// takes none of it from the others. A sum that is too large for its type is as large as can be.
func (r *Resources) AddCapped(other Resources) {
	r.grow(len(other))
	for i, amount := range other {
		(*r)[i] += min(max(amount, 0), math.MaxInt64-(*r)[i])
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

// Overlaps reports whether both vectors have more than zero of a resource.
func (r Resources) Overlaps(other Resources) bool {
	for i, amount := range r {
		if amount > 0 && other.At(i) > 0 {
			return true
		}
	}
	return false
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
