package cluster

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

// devices are the devices of nodes by their ResourceSlices, and the classes by which they are counted.
type devices struct {
	classes deviceClasses
	// nodes has them by node; at the empty name is what holds for all.
	nodes map[string]*kube.NodeDevices
	// pools are the nodes with devices of a pool.
	pools map[poolID]map[string]struct{}
	// both counts the devices that two classes select; at two times the same, those of one.
	both map[[2]string]int
	// dirty are the nodes whose numbers may be others, all of them where it has the empty name.
	dirty map[string]struct{}
}

// poolID names a pool of devices.
type poolID struct{ driver, pool string }

func poolOf(id kube.DeviceID) poolID { return poolID{id.Driver, id.Pool} }

// DevicesSeen are the devices of a node, as its slices and the classes say.
type DevicesSeen struct{ Devices *kube.NodeDevices }

func (e *DevicesSeen) object() (string, metav1.Object, bool) { return "devices of a node", nil, false }

func (e *DevicesSeen) apply(s *State, _ types.UID) Effect {
	node := e.Devices.Node
	before := s.devices.nodes[node]
	relations := s.devices.relations()
	s.devices.count(before, -1)
	s.devices.count(e.Devices, 1)
	if s.devices.nodes[node] = e.Devices; len(e.Devices.Devices)+len(e.Devices.Uncounted) == 0 {
		delete(s.devices.nodes, node)
	}
	s.devices.dirty[node] = struct{}{}
	for _, seen := range []*kube.NodeDevices{before, e.Devices} {
		s.markHolders(seen)
	}
	if !maps.Equal(s.devices.relations(), relations) {
		s.devices.dirty[""] = struct{}{} // what a claim asks for is counted in other classes
	}
	return Effect{Schedule: true}
}

// markHolders marks the claims that have the devices, also those whose pods are gone: their devices may be leaving since.
func (s *State) markHolders(seen *kube.NodeDevices) {
	if seen == nil {
		return
	}
	for i := range seen.Devices {
		for _, claim := range s.claims.holders[seen.Devices[i].ID] {
			s.claims.dirty[claim.name] = struct{}{}
		}
	}
}

// count adds devices to the sums over all nodes, or takes them off.
func (d *devices) count(seen *kube.NodeDevices, sign int) {
	forEachPair(seen, func(pair [2]string) {
		if d.both[pair] += sign; d.both[pair] == 0 {
			delete(d.both, pair)
		}
	})
	if seen == nil {
		return
	}
	for i := range seen.Devices {
		pool := poolOf(seen.Devices[i].ID)
		if sign > 0 {
			addTo(d.pools, pool, seen.Node, struct{}{})
		} else {
			dropFrom(d.pools, pool, seen.Node)
		}
	}
}

// forEachPair calls do with each two classes that select the same device, once for each device, and with each class and itself.
func forEachPair(seen *kube.NodeDevices, do func(pair [2]string)) {
	if seen == nil {
		return
	}
	for i := range seen.Devices {
		classes := seen.Devices[i].Classes
		for j, class := range classes {
			for _, other := range classes[j:] { // they are sorted
				do([2]string{class, other})
			}
		}
	}
}

// relation is how the devices of two classes are related in the whole cluster.
type relation int8

const (
	apart   relation = iota // they have none in common
	inside                  // all of the first are of the second
	around                  // all of the second are of the first
	alike                   // both
	overlap                 // some are of both, and each has others
)

func (d *devices) relate(a, b string) relation {
	common := d.both[[2]string{min(a, b), max(a, b)}]
	allOfA, allOfB := common == d.both[[2]string{a, a}], common == d.both[[2]string{b, b}]
	switch {
	case common == 0:
		return apart
	case allOfA && allOfB:
		return alike
	case allOfA:
		return inside
	case allOfB:
		return around
	}
	return overlap
}

// relations returns how each two classes are related that have a device in common.
func (d *devices) relations() map[[2]string]relation {
	relations := map[[2]string]relation{}
	for pair := range d.both {
		if pair[0] != pair[1] {
			relations[pair] = d.relate(pair[0], pair[1])
		}
	}
	return relations
}

// countedIn returns the classes in which a device of a class that is not chosen yet counts: the class, and each that has all
// devices of it, sorted.
func (s *State) countedIn(class string) []string {
	in := []string{class}
	for _, other := range slices.Sorted(maps.Keys(s.devices.classes.positions)) {
		if relation := s.devices.relate(class, other); other != class && (relation == inside || relation == alike) {
			in = append(in, other)
		}
	}
	return in
}

// offer returns how many devices of a class a node has: those that a pod could be given, and those that pods there hold which
// are charged for them. It is ProvidedByDRA, and why, where the devices cannot be counted.
//
// Devices of claims that no pod on the node is charged for are no capacity, and neither are tainted ones that no pod holds.
func (s *State) offer(node, class string) (number int64, why string) {
	seen := s.devices.nodes[node]
	for _, devices := range []*kube.NodeDevices{seen, s.devices.nodes[""]} {
		if devices != nil && devices.Uncounted[class] != "" {
			return model.ProvidedByDRA, devices.Uncounted[class]
		}
	}
	if seen != nil {
		for i := range seen.Devices {
			device := &seen.Devices[i]
			if !slices.Contains(device.Classes, class) {
				continue
			}
			for _, other := range device.Classes {
				if s.devices.relate(class, other) == overlap {
					return model.ProvidedByDRA, fmt.Sprintf("DeviceClasses %s and %s select the same device, and each one selects others", class, other)
				}
			}
			holders := s.claims.holders[device.ID]
			if s.heldOn(node, holders) || len(holders) == 0 && !device.Tainted || s.isLeaving(node, device) {
				number++
			}
		}
	}
	for _, entry := range s.pods.held[node] { // what is held of devices that no slice has any longer
		for _, gone := range s.heldWithoutSlice(node, entry) {
			if slices.Contains(gone, class) {
				number++
			}
		}
	}
	return number, ""
}

// addDevices writes what a node has of the devices of classes, where it does not report them itself, and which of its devices are
// leaving: those of claims whose pods are gone. They are on their way, so that nothing else is evicted for the job that waits for
// them, and they are not idle. A tainted one is given to no other pod, and is no capacity then.
func (s *State) addDevices(node *nodeState) {
	name := node.object.Name
	for class, position := range s.devices.classes.positions {
		if node.allocatable.At(position) == 0 {
			number, why := s.offer(name, class)
			if number > 0 {
				node.allocatable.Set(position, number)
			}
			if why != "" {
				if node.uncounted == nil {
					node.uncounted = map[corev1.ResourceName]string{}
				}
				node.uncounted[s.dimensions.Name(position)] = why
			}
		}
	}
	if seen := s.devices.nodes[name]; seen != nil {
		for i := range seen.Devices {
			if device := &seen.Devices[i]; s.isLeaving(name, device) {
				s.addDevice(&node.leaving, device.Classes, 1)
			}
		}
	}
}

// isLeaving reports whether the device is still allocated to claims, none of which is in use, and one of which gives it back.
func (s *State) isLeaving(node string, device *kube.Device) bool {
	holders := s.claims.holders[device.ID]
	return !device.Tainted && slices.ContainsFunc(holders, func(claim *claimState) bool { return s.leavesFrom(claim) == node }) &&
		!slices.ContainsFunc(holders, s.inUse)
}

// patchDevices counts again what has changed: what pods are charged for the devices of their claims, and what nodes have.
func (s *State) patchDevices() {
	if _, all := s.devices.dirty[""]; all {
		for name := range s.claims.known {
			s.claims.dirty[name] = struct{}{}
		}
		for name := range s.nodes {
			s.devices.dirty[name] = struct{}{}
		}
		for uid, entry := range s.pods.entries {
			if entry.record != nil && entry.record.devices != nil {
				s.claims.charges[uid] = struct{}{}
			}
		}
	}
	for name := range s.devices.dirty {
		for _, entry := range s.pods.held[name] {
			s.claims.mark(entry.record) // what it holds may be of other classes
		}
	}
	for name := range s.claims.dirty {
		for uid := range s.claims.users[name] {
			s.claims.charges[uid] = struct{}{}
		}
		if claim := s.claims.known[name]; claim != nil {
			s.claims.charges[claim.owner] = struct{}{} // a pod does not name the claim that is made for its extended resources
			s.markNodes(claim)
		}
	}
	clear(s.claims.dirty)
	for uid := range s.claims.charges {
		if entry := s.pods.entries[uid]; entry != nil {
			s.chargeDevices(entry)
		}
	}
	clear(s.claims.charges)
	clear(s.claims.dirty) // of those who are charged otherwise now, who pays for a claim is not another one
	for name := range s.devices.dirty {
		if s.nodes[name] != nil {
			s.readNodeAgain(name)
		}
	}
	clear(s.devices.dirty)
}

// markNodes marks the nodes that have devices of a claim.
func (s *State) markNodes(claim *claimState) {
	for i := range claim.devices {
		for node := range s.devices.pools[poolOf(claim.devices[i].id)] {
			s.devices.dirty[node] = struct{}{}
		}
	}
}
