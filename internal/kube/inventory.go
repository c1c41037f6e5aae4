package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"

	"github.com/tutti-sched/tutti/pkg/model"
)

// DeviceID names a device: what an allocation of a claim names.
type DeviceID struct{ Driver, Pool, Device string }

// String returns the names with slashes between them, as kube-scheduler writes them.
func (d DeviceID) String() string { return d.Driver + "/" + d.Pool + "/" + d.Device }

// compare orders devices by driver, pool and name.
func (d DeviceID) compare(other DeviceID) int {
	return cmp.Or(strings.Compare(d.Driver, other.Driver), strings.Compare(d.Pool, other.Pool), strings.Compare(d.Device, other.Device))
}

// Device is one device of a node that can be counted: an allocation takes all of it and nothing else, on this node alone.
type Device struct {
	ID DeviceID
	// Classes are the DeviceClasses that select it, sorted.
	Classes []string
	// Tainted reports a taint NoSchedule or NoExecute: no claim without a toleration gets the device.
	Tainted bool
	// described is what selectors read of it.
	described cel.Device
}

// NodeDevices are the devices of one node by its ResourceSlices. What it says is never changed after it was pushed.
type NodeDevices struct {
	// Node is the name of the node, empty for what holds for all nodes.
	Node string
	// Devices are those of complete, valid pools of this node alone that can be counted, by ID.
	Devices []Device
	// Uncounted says, by DeviceClass, why devices of the class on this node, or on any node where Node is empty, are not
	// counted: the first device of the class that cannot be counted, or the error of its selectors. Devices can have the class,
	// too.
	Uncounted map[string]string

	expressions *cel.Cache // nil in one that no inventory has made
	// mu guards selected: what Select has found out, by what it was asked.
	mu       sync.Mutex
	selected map[model.DeviceSelectors]selection
}

// selection is whether some of the devices are selected, and whether all are.
type selection struct{ some, all bool }

// maxSelected is how many answers of Select a node keeps: users write what it is asked.
const maxSelected = 64

// Select reports whether some devices of a class satisfy all the expressions of a claim's request, and whether all do; a node
// without a device of the class has none. Where an expression fails for a device, some and not all do: kube-scheduler's allocator
// says then what is wrong. An answer takes some microseconds for each device, and is kept. Safe for concurrent use.
func (n *NodeDevices) Select(by model.DeviceSelectors) (some, all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answer, known := n.selected[by]
	if !known {
		answer = n.evaluate(by)
		if len(n.selected) >= maxSelected {
			n.selected = nil
		}
		if n.selected == nil {
			n.selected = map[model.DeviceSelectors]selection{}
		}
		n.selected[by] = answer
	}
	return answer.some, answer.all
}

func (n *NodeDevices) evaluate(by model.DeviceSelectors) selection {
	if n.expressions == nil {
		return selection{some: true}
	}
	var compiled *classSelectors
	answer := selection{all: true}
	for i := range n.Devices {
		device := &n.Devices[i]
		if !slices.Contains(device.Classes, by.Class) {
			continue
		}
		if compiled == nil {
			var selectors []resourceapi.DeviceSelector
			for _, expression := range by.Expressions() {
				selectors = append(selectors, resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}})
			}
			compiled = compile(n.expressions, by.Class, selectors)
		}
		verdict := compiled.judge(device.ID, device.described)
		answer.some = answer.some || verdict.selects || verdict.failed != ""
		answer.all = answer.all && verdict.selects
	}
	answer.all = answer.all && answer.some
	return answer
}

// Equal reports whether both say the same of the devices of a node.
func (n *NodeDevices) Equal(other *NodeDevices) bool {
	return maps.Equal(n.Uncounted, other.Uncounted) && slices.EqualFunc(n.Devices, other.Devices, func(a, b Device) bool {
		return a.ID == b.ID && a.Tainted == b.Tainted && slices.Equal(a.Classes, b.Classes) && reflect.DeepEqual(a.described, b.described)
	})
}

// DeviceInventory finds out which devices nodes have, from ResourceSlices, with the taints of DeviceTaintRules, and
// DeviceClasses. What it says can be counted, kube-scheduler's allocator gives to claims that ask for a class and a number of
// devices and for nothing else. Its methods may be called on any goroutine. A slice that changes costs the selectors of its
// devices and the nodes of its pool; a class that changes costs its selectors for all devices, and all nodes.
type DeviceInventory struct {
	push        func(*NodeDevices)
	expressions *cel.Cache

	mu      sync.Mutex
	classes []*classSelectors       // by name
	pushed  map[string]*NodeDevices // the last ones that were not empty

	// index guards what follows together with mu, so that slicesFor does not wait for selectors.
	index  sync.RWMutex
	slices map[string]*deviceSlice            // by name
	pools  map[poolID]*devicePool             // those with a slice
	nodes  map[string]map[string]*deviceSlice // by node, empty where it is not one, and name
}

// NewDeviceInventory returns an inventory without slices and classes. It calls push with what is not as it was pushed before, and
// with empty NodeDevices for a node that has no devices any longer. Push is called in the methods of the inventory, in the order
// of the changes, and must return immediately and not call the inventory; with nil nothing is pushed.
func NewDeviceInventory(push func(*NodeDevices)) *DeviceInventory {
	return &DeviceInventory{
		push: push,
		expressions: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
			EnableListTypeAttributes: utilfeature.DefaultFeatureGate.Enabled(features.DRAListTypeAttributes),
		}),
		slices: map[string]*deviceSlice{},
		pools:  map[poolID]*devicePool{},
		nodes:  map[string]map[string]*deviceSlice{},
		pushed: map[string]*NodeDevices{},
	}
}

// DevicesOf returns the devices of all nodes that have any, by node.
func DevicesOf(slices []*resourceapi.ResourceSlice, classes []*resourceapi.DeviceClass) map[string]*NodeDevices {
	found := map[string]*NodeDevices{}
	inventory := NewDeviceInventory(func(devices *NodeDevices) {
		found[devices.Node] = devices
		if len(devices.Devices) == 0 && len(devices.Uncounted) == 0 {
			delete(found, devices.Node)
		}
	})
	for _, class := range classes {
		inventory.SetClass(class)
	}
	for _, slice := range slices {
		inventory.SetSlice(slice)
	}
	return found
}

// SetSlice takes in a slice, in place of the one of the same name. It is not changed afterwards.
func (d *DeviceInventory) SetSlice(slice *resourceapi.ResourceSlice) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replace(slice.Name, slice)
}

// RemoveSlice takes a slice out.
func (d *DeviceInventory) RemoveSlice(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replace(name, nil)
}

// SetClass takes in a class, in place of the one of the same name.
func (d *DeviceInventory) SetClass(class *resourceapi.DeviceClass) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := d.class(class.Name)
	if !known {
		d.classes = slices.Insert(d.classes, at, nil)
	} else if reflect.DeepEqual(d.classes[at].selectors, class.Spec.Selectors) {
		return
	}
	d.forget(d.classes[at])
	d.classes[at] = compile(d.expressions, class.Name, class.Spec.Selectors)
	d.computeAll()
}

// RemoveClass takes a class out.
func (d *DeviceInventory) RemoveClass(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, known := d.class(name); known {
		d.forget(d.classes[at])
		d.classes = slices.Delete(d.classes, at, at+1)
		d.computeAll()
	}
}

// class returns where the class of the name is or would be.
func (d *DeviceInventory) class(name string) (at int, known bool) {
	return slices.BinarySearchFunc(d.classes, name, func(class *classSelectors, name string) int {
		return strings.Compare(class.name, name)
	})
}

// forget deletes what is known of a class that is no longer.
func (d *DeviceInventory) forget(class *classSelectors) {
	for _, slice := range d.slices {
		delete(slice.verdicts, class)
	}
}

// replace takes in the slice of the name, nil where it is gone, and computes the nodes again that it can have changed.
func (d *DeviceInventory) replace(name string, slice *resourceapi.ResourceSlice) {
	for _, node := range d.store(name, slice) {
		d.compute(node)
	}
}

// store takes in the slice of the name, nil where it is gone. It returns the nodes that it can have changed, sorted: its own, and
// all of its pool where another part of the pool counts now than before.
func (d *DeviceInventory) store(name string, slice *resourceapi.ResourceSlice) []string {
	d.index.Lock()
	defer d.index.Unlock()
	changed := map[string]bool{}
	var pools []*devicePool
	if before := d.slices[name]; before != nil {
		delete(d.slices, name)
		delete(before.pool.slices, name)
		delete(d.nodes[before.node], name)
		changed[before.node] = true
		pools = append(pools, before.pool)
	}
	if slice != nil {
		id := poolID{driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name}
		if d.pools[id] == nil {
			d.pools[id] = &devicePool{id: id, slices: map[string]*deviceSlice{}}
		}
		now := &deviceSlice{
			ResourceSlice: slice, node: onlyNode(&slice.Spec), pool: d.pools[id], verdicts: map[*classSelectors][]verdict{},
		}
		if d.nodes[now.node] == nil {
			d.nodes[now.node] = map[string]*deviceSlice{}
		}
		d.slices[name], now.pool.slices[name], d.nodes[now.node][name] = now, now, now
		changed[now.node] = true
		pools = append(pools, now.pool)
	}
	for _, pool := range pools {
		if state := pool.read(); state != pool.state {
			pool.state = state
			for _, other := range pool.slices {
				changed[other.node] = true
			}
		}
		if len(pool.slices) == 0 {
			delete(d.pools, pool.id)
		}
	}
	for node := range changed {
		if len(d.nodes[node]) == 0 {
			delete(d.nodes, node)
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// slicesFor returns all that kube-scheduler's allocator looks at when it searches devices on the node: the slices of the node,
// those that are not of one node, and all other slices of the pools of these.
func (d *DeviceInventory) slicesFor(node string) []*resourceapi.ResourceSlice {
	d.index.RLock()
	defer d.index.RUnlock()
	var found []*resourceapi.ResourceSlice
	pools := map[*devicePool]bool{}
	for _, of := range []string{node, ""} {
		for _, slice := range d.nodes[of] {
			if pools[slice.pool] {
				continue
			}
			pools[slice.pool] = true
			for _, part := range slice.pool.slices {
				found = append(found, part.ResourceSlice)
			}
		}
	}
	return found
}

func (d *DeviceInventory) computeAll() {
	for _, node := range slices.Sorted(maps.Keys(d.nodes)) {
		d.compute(node)
	}
}

// compute pushes the devices of the node, or of no single node, unless they are as they were.
func (d *DeviceInventory) compute(node string) {
	if d.push == nil {
		return
	}
	now := &NodeDevices{Node: node, expressions: d.expressions}
	local := d.nodes[node]
	for _, name := range slices.Sorted(maps.Keys(local)) {
		slice := local[name]
		if !slice.counts() {
			continue
		}
		for i := range slice.Spec.Devices {
			d.add(now, slice, i)
		}
	}
	slices.SortFunc(now.Devices, func(a, b Device) int { return a.ID.compare(b.ID) })
	before := d.pushed[node]
	if before == nil {
		before = &NodeDevices{}
	}
	if now.Equal(before) {
		return
	}
	d.pushed[node] = now
	if len(now.Devices) == 0 && len(now.Uncounted) == 0 {
		delete(d.pushed, node)
	}
	d.push(now)
}

// add adds a device of the slice to those of its node.
func (d *DeviceInventory) add(to *NodeDevices, slice *deviceSlice, index int) {
	device := &slice.Spec.Devices[index]
	found := Device{
		ID: slice.id(index), Tainted: slices.ContainsFunc(device.Taints, keepsAway), described: slice.described(index),
	}
	why := cmp.Or(slice.pool.state.notPlain, notPlain(device))
	for _, class := range d.classes {
		verdict := slice.verdictsOf(class)[index]
		uncounted := verdict.failed
		if verdict.selects {
			found.Classes = append(found.Classes, class.name)
			if why != "" {
				uncounted = "device " + device.Name + " of pool " + slice.Spec.Pool.Name + ": " + why
			}
		}
		if _, known := to.Uncounted[class.name]; uncounted != "" && !known {
			if to.Uncounted == nil {
				to.Uncounted = map[string]string{}
			}
			to.Uncounted[class.name] = uncounted
		}
	}
	if why == "" {
		to.Devices = append(to.Devices, found)
	}
}

// keepsAway reports whether the taint keeps claims that do not tolerate it from the device. Unknown effects are none.
func keepsAway(taint resourceapi.DeviceTaint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}

// notPlain says why a device cannot be counted, empty when it can: when an allocation takes one device and changes nothing for
// the others. What is asked of a device is known for the fields that TestKnownFieldsOfDevices lists.
func notPlain(device *resourceapi.Device) string {
	switch {
	case len(device.ConsumesCounters) > 0:
		return "consumes counters"
	case ptr.Deref(device.AllowMultipleAllocations, false):
		return "allows multiple allocations"
	case len(device.BindingConditions) > 0 || len(device.BindingFailureConditions) > 0:
		return "has binding conditions"
	case ptr.Deref(device.BindsToNode, false):
		return "binds to the node"
	case len(device.NodeAllocatableResources) > 0:
		return "provides allocatable resources of the node"
	case device.NodeName != nil || device.NodeSelector != nil || device.AllNodes != nil:
		return "selects nodes itself"
	}
	for _, capacity := range device.Capacity {
		if capacity.RequestPolicy != nil || capacity.Value.Sign() < 0 {
			return "has a capacity with a request policy, or below zero"
		}
	}
	return ""
}

// onlyNode returns the node that has all devices of the slice, empty when it is not one node.
func onlyNode(spec *resourceapi.ResourceSliceSpec) string {
	if spec.NodeSelector != nil || ptr.Deref(spec.AllNodes, false) || ptr.Deref(spec.PerDeviceNodeSelection, false) {
		return ""
	}
	return ptr.Deref(spec.NodeName, "")
}

// poolID names a pool.
type poolID struct{ driver, pool string }

// devicePool is the slices of one driver and pool name, of all generations.
type devicePool struct {
	id     poolID
	slices map[string]*deviceSlice // by name
	state  poolState
}

// poolState is what of a pool counts.
type poolState struct {
	// notPlain says why no device of the pool can be counted, of old generations and of incomplete pools included: which of them
	// the allocator gives depends on what it sees from a node.
	notPlain string
	// generation is the highest, and usable reports whether the allocator gives its devices.
	generation int64
	usable     bool
}

// read returns the state by the slices, as the allocator does.
func (p *devicePool) read() poolState {
	var node *string
	var newest []*deviceSlice
	grouped := false
	for _, slice := range p.slices {
		if slice.node == "" || node != nil && slice.node != *node {
			return poolState{notPlain: "its pool is not of one node alone"}
		}
		node = &slice.node
		grouped = grouped || slices.ContainsFunc(slice.Spec.Devices, hasCompatibilityGroups)
		if len(newest) > 0 && slice.Spec.Pool.Generation > newest[0].Spec.Pool.Generation {
			newest = nil
		}
		if len(newest) == 0 || slice.Spec.Pool.Generation == newest[0].Spec.Pool.Generation {
			newest = append(newest, slice)
		}
	}
	if grouped {
		return poolState{notPlain: "its pool has compatibility groups"}
	}
	if len(newest) == 0 {
		return poolState{}
	}
	first := newest[0].Spec.Pool
	for _, slice := range newest {
		if slice.Spec.Pool.ResourceSliceCount != first.ResourceSliceCount {
			return poolState{notPlain: "slices of its pool differ in resourceSliceCount"}
		}
	}
	return poolState{
		generation: first.Generation, usable: int64(len(newest)) == first.ResourceSliceCount && valid(newest),
	}
}

func hasCompatibilityGroups(device resourceapi.Device) bool {
	return slices.ContainsFunc(device.ConsumesCounters, func(consumed resourceapi.DeviceCounterConsumption) bool {
		return len(consumed.CompatibilityGroups) > 0
	})
}

// valid reports whether names of devices and counter sets are unique in the pool and all counters that devices consume are there.
// Devices that stand beside counter sets in one slice are none.
func valid(pool []*deviceSlice) bool {
	counters := map[string]map[string]resourceapi.Counter{}
	for _, slice := range pool {
		for _, set := range slice.Spec.SharedCounters {
			if counters[set.Name] != nil {
				return false
			}
			counters[set.Name] = set.Counters
			if set.Counters == nil {
				counters[set.Name] = map[string]resourceapi.Counter{}
			}
		}
	}
	names := map[string]bool{}
	for _, slice := range pool {
		if len(slice.Spec.SharedCounters) > 0 {
			continue
		}
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if names[device.Name] {
				return false
			}
			names[device.Name] = true
			for _, consumed := range device.ConsumesCounters {
				set, known := counters[consumed.CounterSet]
				if !known {
					return false
				}
				for name := range consumed.Counters {
					if _, known := set[name]; !known {
						return false
					}
				}
			}
		}
	}
	return true
}

// deviceSlice is a slice, with what the selectors of classes say of its devices.
type deviceSlice struct {
	*resourceapi.ResourceSlice
	node     string // empty: not one
	pool     *devicePool
	verdicts map[*classSelectors][]verdict // one for each device; absent until they are needed
}

// counts reports whether the devices of the slice are devices of its node, countable or not.
func (s *deviceSlice) counts() bool {
	pool := s.pool.state
	return pool.notPlain != "" ||
		pool.usable && s.Spec.Pool.Generation == pool.generation && len(s.Spec.SharedCounters) == 0
}

func (s *deviceSlice) id(index int) DeviceID {
	return DeviceID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name, Device: s.Spec.Devices[index].Name}
}

// described returns what selectors read of a device.
func (s *deviceSlice) described(index int) cel.Device {
	device := &s.Spec.Devices[index]
	return cel.Device{
		Driver: s.Spec.Driver, AllowMultipleAllocations: device.AllowMultipleAllocations,
		Attributes: device.Attributes, Capacity: device.Capacity,
	}
}

func (s *deviceSlice) verdictsOf(class *classSelectors) []verdict {
	known, ok := s.verdicts[class]
	if !ok {
		known = make([]verdict, len(s.Spec.Devices))
		for i := range s.Spec.Devices {
			known[i] = class.judge(s.id(i), s.described(i))
		}
		s.verdicts[class] = known
	}
	return known
}

// verdict is what the selectors of a class say of a device.
type verdict struct {
	selects bool
	failed  string // the error; the allocator gives up where it meets one
}

// classSelectors are the selectors of a DeviceClass, or of a request for devices of one, compiled.
type classSelectors struct {
	name      string
	selectors []resourceapi.DeviceSelector
	compiled  []cel.CompilationResult // one for each
}

func compile(expressions *cel.Cache, class string, selectors []resourceapi.DeviceSelector) *classSelectors {
	result := &classSelectors{name: class, selectors: selectors}
	for _, selector := range selectors {
		var compiled cel.CompilationResult
		if selector.CEL != nil {
			compiled = expressions.GetOrCompile(selector.CEL.Expression)
		}
		result.compiled = append(result.compiled, compiled)
	}
	return result
}

// judge evaluates the selectors for a device, in the order of the allocator and up to the first that does not select it.
func (c *classSelectors) judge(id DeviceID, device cel.Device) verdict {
	for i, selector := range c.selectors {
		if selector.CEL == nil {
			return verdict{failed: fmt.Sprintf("class %s: selector #%d: no CEL expression", c.name, i)}
		}
		if err := c.compiled[i].Error; err != nil {
			return verdict{failed: fmt.Sprintf("class %s: selector #%d: CEL compile error: %v", c.name, i, err)}
		}
		selects, _, err := c.compiled[i].DeviceMatches(context.Background(), device) // expressions have a limit of cost
		if err != nil {
			return verdict{failed: fmt.Sprintf("class %s: selector #%d on device %s: CEL runtime error: %v", c.name, i, id, cel.EnhanceRuntimeError(err))}
		}
		if !selects {
			return verdict{}
		}
	}
	return verdict{selects: true}
}
