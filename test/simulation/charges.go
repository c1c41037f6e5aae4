package simulation

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/test/invariants"
)

// This file counts devices by slices, claims and pods alone. A node then offers them as it offers CPU, and pods ask for them, so
// that all judges of capacity see devices. Devices of claims whose pods are gone are a pod of their own that terminates.

// deviceCount is what one party knows of devices.
type deviceCount struct {
	slices []*resourceapi.ResourceSlice
	claims map[string]*resourceapi.ResourceClaim
	pods   []*corev1.Pod
	place  func(*corev1.Pod) string
	// apart lets what does not become free when a pod leaves be a pod of its own, which stays.
	apart bool
	// classes are those there are.
	classes map[string]bool

	devices map[deviceID]*countedDevice
	byUID   map[types.UID]*corev1.Pod
	users   map[string][]*corev1.Pod
	holders map[deviceID][]string
	// inside is what countedIn has found.
	inside map[string][]string

	// charges are what pods take, by class; searched are the pods of which the claims say no number, kept what does not become
	// free when a pod leaves.
	charges, kept map[types.UID]map[string]int64
	searched      map[types.UID]bool
	// offers are the devices of nodes, by class, leaving those of claims whose pods are gone.
	offers, leaving map[string]map[string]int64
}

type deviceID struct{ driver, pool, name string }

type countedDevice struct {
	id      deviceID
	node    string
	classes []string
	tainted bool
}

// count counts everything.
func (c *deviceCount) count() {
	c.inside = map[string][]string{}
	c.devices, c.byUID, c.users, c.holders = map[deviceID]*countedDevice{}, map[types.UID]*corev1.Pod{}, map[string][]*corev1.Pod{}, map[deviceID][]string{}
	c.charges, c.kept, c.searched = map[types.UID]map[string]int64{}, map[types.UID]map[string]int64{}, map[types.UID]bool{}
	c.offers, c.leaving = map[string]map[string]int64{}, map[string]map[string]int64{}
	for _, slice := range c.slices {
		for i := range slice.Spec.Devices {
			one := countDevice(slice, &slice.Spec.Devices[i], c.classes)
			c.devices[one.id] = one
		}
	}
	for _, pod := range c.pods {
		c.byUID[pod.UID] = pod
		for _, name := range namedClaims(pod) {
			if name != "" && !finished(pod) {
				c.users[name] = append(c.users[name], pod)
			}
		}
	}
	for _, name := range sortedNames(c.claims) {
		for _, id := range devicesOf(c.claims[name]) {
			c.holders[id] = append(c.holders[id], name)
		}
	}
	for _, pod := range c.pods {
		c.charge(pod)
	}
	for _, device := range c.devices {
		c.offer(device)
	}
}

func countDevice(slice *resourceapi.ResourceSlice, device *resourceapi.Device, classes map[string]bool) *countedDevice {
	one := &countedDevice{id: deviceID{slice.Spec.Driver, slice.Spec.Pool.Name, device.Name}, node: *slice.Spec.NodeName}
	one.tainted = slices.ContainsFunc(device.Taints, func(taint resourceapi.DeviceTaint) bool { return taint.Effect != resourceapi.DeviceTaintEffectNone })
	in := func(class string, is bool) {
		if is && classes[class] {
			one.classes = append(one.classes, class)
		}
	}
	in(classBig, slice.Spec.Driver == gpuDriver && *device.Attributes["model"].StringValue == "big")
	in(classGPU, slice.Spec.Driver == gpuDriver)
	in(classNIC, slice.Spec.Driver == nicDriver)
	return one
}

// devicesOf are the devices that a claim has.
func devicesOf(claim *resourceapi.ResourceClaim) (ids []deviceID) {
	if claim.Status.Allocation != nil {
		for _, device := range claim.Status.Allocation.Devices.Results {
			ids = append(ids, deviceID{device.Driver, device.Pool, device.Device})
		}
	}
	return ids
}

// countedIn are the classes in which a device of the class counts that is not chosen yet.
func (c *deviceCount) countedIn(class string) []string {
	if known := c.inside[class]; known != nil {
		return known
	}
	all := []string{class}
	for other := range c.classes {
		some, outside := false, false
		for _, device := range c.devices {
			if slices.Contains(device.classes, class) {
				some = true
				outside = outside || !slices.Contains(device.classes, other)
			}
		}
		if other != class && some && !outside {
			all = append(all, other)
		}
	}
	c.inside[class] = all
	return all
}

// payer is the pod that is charged for a claim, nil when none is.
func (c *deviceCount) payer(name string) *corev1.Pod {
	claim := c.claims[name]
	alive := func(uid types.UID) *corev1.Pod {
		if pod := c.byUID[uid]; pod != nil && !finished(pod) {
			return pod
		}
		return nil
	}
	if owner := metav1.GetControllerOfNoCopy(claim); owner != nil {
		return alive(owner.UID)
	}
	if claim.Status.Allocation != nil {
		for _, user := range claim.Status.ReservedFor {
			if pod := alive(user.UID); pod != nil {
				return pod
			}
		}
		return nil
	}
	var first *corev1.Pod
	for _, pod := range c.users[name] {
		if first == nil || model.CompareTasks(asTask(pod), asTask(first)) < 0 {
			first = pod
		}
	}
	return first
}

func asTask(pod *corev1.Pod) *model.Task {
	return &model.Task{PodRef: model.PodRef{UID: pod.UID}, Created: pod.CreationTimestamp.Time}
}

// charge counts the devices of a pod.
func (c *deviceCount) charge(pod *corev1.Pod) {
	if finished(pod) {
		return
	}
	add := func(to map[types.UID]map[string]int64, classes []string, n int64) {
		if to[pod.UID] == nil {
			to[pod.UID] = map[string]int64{}
		}
		for _, class := range classes {
			to[pod.UID][class] += n
		}
	}
	for _, name := range namedClaims(pod) {
		claim := c.claims[name]
		switch {
		case claim == nil, c.payer(name) != pod:
			c.searched[pod.UID] = true
		case claim.Status.Allocation != nil && c.place(pod) == "":
			c.searched[pod.UID] = true
		case claim.Status.Allocation != nil:
			for i, id := range devicesOf(claim) {
				device := c.devices[id]
				gone := device == nil || device.node != c.place(pod)
				classes := c.countedIn(claimClass(claim, claim.Status.Allocation.Devices.Results[i].Request))
				if !gone {
					classes = device.classes
				}
				add(c.charges, classes, 1)
				if gone || device.tainted || c.usedOnNodes(name) > 1 || len(c.holders[id]) > 1 {
					add(c.kept, classes, 1)
				}
				if gone { // the node has it as long as it is held
					c.add(c.offers, c.place(pod), classes)
				}
			}
		default:
			for _, request := range claim.Spec.Devices.Requests {
				if request.Exactly == nil {
					c.searched[pod.UID] = true
					continue
				}
				add(c.charges, c.countedIn(request.Exactly.DeviceClassName), request.Exactly.Count)
				if len(request.Exactly.Selectors) > 0 {
					c.searched[pod.UID] = true
				}
			}
			if len(c.users[name]) > 1 {
				c.searched[pod.UID] = true
			}
		}
	}
	c.chargeExtended(pod, add)
}

// usedOnNodes is how many pods with a node use a claim.
func (c *deviceCount) usedOnNodes(claim string) (n int) {
	for _, pod := range c.users[claim] {
		if c.place(pod) != "" {
			n++
		}
	}
	return n
}

// chargeExtended counts the devices of a pod that asks for them by extended resources, once they are allocated by the claim
// that is made for it: in each class that has them, and before in each class around the one that it asks for. What its request
// says is not added again.
func (c *deviceCount) chargeExtended(pod *corev1.Pod, add func(map[types.UID]map[string]int64, []string, int64)) {
	if !asksExtended(pod) {
		return
	}
	asks, allocated := map[string]int64{}, false
	for _, class := range []string{classGPU, classBig, classNIC} {
		if amount, is := pod.Spec.Containers[0].Resources.Requests[resourceOfClass(class)]; is {
			asks[class] += amount.Value()
		}
	}
	for _, name := range sortedNames(c.claims) {
		claim := c.claims[name]
		if !isMadeFor(claim, pod.UID) || claim.Status.Allocation == nil || c.place(pod) == "" {
			continue
		}
		allocated = true
		for i, id := range devicesOf(claim) {
			class := claimClass(claim, claim.Status.Allocation.Devices.Results[i].Request)
			classes := c.countedIn(class)
			if device := c.devices[id]; device != nil && device.node == c.place(pod) {
				if classes = device.classes; device.tainted {
					add(c.kept, classes, 1)
				}
			} else {
				add(c.kept, classes, 1)
				c.add(c.offers, c.place(pod), classes)
			}
			add(c.charges, classes, 1)
		}
	}
	for class, n := range asks {
		if allocated {
			add(c.charges, []string{class}, -n)
			continue
		}
		for _, around := range c.countedIn(class) {
			if around != class {
				add(c.charges, []string{around}, n)
			}
		}
	}
}

// claimClass is the class that a request names.
func claimClass(claim *resourceapi.ResourceClaim, name string) string {
	for _, request := range claim.Spec.Devices.Requests {
		if request.Exactly != nil && request.Name == name {
			return request.Exactly.DeviceClassName
		}
		for _, sub := range request.FirstAvailable {
			if request.Name+"/"+sub.Name == name {
				return sub.DeviceClassName
			}
		}
	}
	return ""
}

func (c *deviceCount) add(to map[string]map[string]int64, node string, classes []string) {
	if to[node] == nil {
		to[node] = map[string]int64{}
	}
	for _, class := range classes {
		to[node][class]++
	}
}

// offer counts a device for its node: when it is free, held by a pod there, or leaving.
func (c *deviceCount) offer(device *countedDevice) {
	holders := c.holders[device.id]
	held, payers, leaves := false, false, false
	for _, name := range holders {
		payer, claim := c.payer(name), c.claims[name]
		payers = payers || payer != nil
		held = held || payer != nil && c.place(payer) == device.node
		leaves = leaves || payer == nil && (len(claim.Status.ReservedFor) > 0 || claim.DeletionTimestamp != nil)
	}
	switch {
	case held, len(holders) == 0 && !device.tainted:
		c.add(c.offers, device.node, device.classes)
	case leaves && !payers && !device.tainted:
		c.add(c.offers, device.node, device.classes)
		c.add(c.leaving, device.node, device.classes)
	}
}

// withDevices returns the pods with what they take, and those that stand for devices that are leaving.
func (c *deviceCount) withDevices() (pods []*corev1.Pod) {
	var others []*corev1.Pod
	for _, pod := range c.pods {
		charge := c.charges[pod.UID]
		if kept := c.kept[pod.UID]; c.apart && len(kept) > 0 {
			charge = maps.Clone(charge)
			for class, n := range kept {
				charge[class] -= n
			}
			others = append(others, addRequests(standIn("kept-"+pod.Name, c.place(pod)), kept))
		}
		pods = append(pods, addRequests(pod, charge))
	}
	for _, node := range sortedNames(c.leaving) {
		gone := standIn("leaving-"+node, node)
		gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &metav1.Time{}, new(int64)
		others = append(others, addRequests(gone, c.leaving[node]))
	}
	return append(pods, others...)
}

// keptOf is what withDevices has put apart for a pod.
func (c *deviceCount) keptOf(pod *corev1.Pod) invariants.Amounts {
	amounts := invariants.Amounts{}
	for class, n := range c.kept[pod.UID] {
		amounts[resourceOfClass(class)] = n
	}
	return amounts
}

func standIn(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: leavingNamespace, Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: node, Priority: new(int32), TerminationGracePeriodSeconds: new(int64), Containers: make([]corev1.Container, 1)},
	}
}

// leavingNamespace has no pod of its own.
const leavingNamespace = "leaving"

func addRequests(pod *corev1.Pod, more map[string]int64) *corev1.Pod {
	list := corev1.ResourceList{}
	for class, n := range more {
		if n != 0 {
			name := resourceOfClass(class)
			amount := pod.Spec.Containers[0].Resources.Requests[name]
			list[name] = *resource.NewQuantity(amount.Value()+n, resource.DecimalSI)
		}
	}
	if len(list) == 0 {
		return pod
	}
	also := *pod
	also.Spec.Containers = slices.Clone(pod.Spec.Containers)
	requests := maps.Clone(pod.Spec.Containers[0].Resources.Requests)
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	maps.Copy(requests, list)
	also.Spec.Containers[0].Resources.Requests = requests
	return &also
}

// onNode returns a node with its devices, and with more places for the pods that stand for devices.
func (c *deviceCount) onNode(node *corev1.Node) *corev1.Node {
	also := *node
	also.Status.Allocatable = maps.Clone(node.Status.Allocatable)
	for class := range c.classes {
		if n := c.offers[node.Name][class]; n > 0 {
			also.Status.Allocatable[resourceOfClass(class)] = *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	more := int64(0)
	if len(c.leaving[node.Name]) > 0 {
		more++
	}
	for _, pod := range c.pods {
		if c.apart && len(c.kept[pod.UID]) > 0 && c.place(pod) == node.Name {
			more++
		}
	}
	places := node.Status.Allocatable[corev1.ResourcePods]
	also.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(places.Value()+more, resource.DecimalSI)
	return &also
}

// counted is what the process knows of devices, with its pods and nodes; it is counted again when something has changed.
func (p *process) counted() *countedView {
	if p.view != nil {
		return p.view
	}
	c := &deviceCount{claims: map[string]*resourceapi.ResourceClaim{}, classes: map[string]bool{}, place: p.place, apart: true}
	for _, name := range sortedNames(p.told[kindPod]) {
		c.pods = append(c.pods, p.pod(name))
	}
	for _, one := range p.told[kindSlice] {
		c.slices = append(c.slices, one.object.(*resourceapi.ResourceSlice))
	}
	for name, one := range p.told[kindClaim] {
		c.claims[name] = one.object.(*resourceapi.ResourceClaim)
	}
	for name := range p.told[kindClass] {
		c.classes[name] = true
	}
	c.count()
	p.view = &countedView{deviceCount: c, all: c.withDevices(), nodes: map[string]*corev1.Node{}}
	for name, one := range p.told[kindNode] {
		p.view.nodes[name] = c.onNode(one.object.(*corev1.Node))
	}
	return p.view
}

// setAside counts the devices, by node and class, that are reserved in the process for pods of which the claims say no number,
// and that no claim is known to have yet.
func (p *process) setAside() map[string]map[string]int64 {
	view, sum := p.counted(), map[string]map[string]int64{}
	for uid, h := range p.reserved {
		for _, grant := range h.grants {
			for _, given := range grant.results {
				id := deviceID{given.Driver, given.Pool, given.Device}
				if device := view.devices[id]; device != nil && view.searched[uid] && len(view.holders[id]) == 0 {
					view.add(sum, h.node, device.classes)
				}
			}
		}
	}
	return sum
}

// countedView is pods and nodes with their devices.
type countedView struct {
	*deviceCount
	all   []*corev1.Pod
	nodes map[string]*corev1.Node
}

// counted is the devices of all there is.
func (s *server) counted() *countedView {
	c := &deviceCount{claims: map[string]*resourceapi.ResourceClaim{}, classes: map[string]bool{}, place: nodeOf, pods: s.pods()}
	for _, name := range s.names(kindSlice) {
		c.slices = append(c.slices, s.slice(name))
	}
	for _, name := range s.names(kindClaim) {
		c.claims[name] = s.claim(name)
	}
	for _, name := range s.names(kindClass) {
		c.classes[name] = true
	}
	c.count()
	view := &countedView{deviceCount: c, all: c.withDevices(), nodes: map[string]*corev1.Node{}}
	for _, name := range s.names(kindNode) {
		view.nodes[name] = c.onNode(s.node(name))
	}
	return view
}

// countsDevices is D3: on each node that the process knows as many devices are idle as slices, claims and pods say. What is
// leaving is not idle.
func (j *invariantChecker) countsDevices(p *process) {
	if !j.config.Devices || p.dead || p.hung {
		return
	}
	view, snapshot := p.counted(), p.state.Snapshot(p.clock.Now())
	for _, name := range sortedNames(view.nodes) {
		node := snapshot.Node(name)
		if node == nil {
			continue
		}
		free := invariants.Free(view.nodes[name], view.all, func(pod *corev1.Pod) bool { return p.place(pod) == name })
		has := node.Amounts()
		for _, class := range sortedNames(view.classes) {
			resource := resourceOfClass(class)
			position := snapshot.Dimensions.Index(resource)
			if idle := has.Idle.At(position); idle != free[resource] {
				j.violated("D3", "%s counts %d idle %s on %s, and there are %d: %s", p, idle, resource, name, free[resource], view.describe(name))
			}
			if leaving := has.Releasing.At(position); leaving < view.leaving[name][class] {
				j.violated("D3", "%s counts %d %s on %s as leaving, and %d are", p, leaving, resource, name, view.leaving[name][class])
			}
		}
	}
}

// describe says what a node has and who holds it.
func (c *deviceCount) describe(node string) string {
	text := fmt.Sprintf("offers %v, leaving %v", c.offers[node], c.leaving[node])
	for _, pod := range c.pods {
		if c.place(pod) == node && len(c.charges[pod.UID]) > 0 {
			text += fmt.Sprintf("; %s %v", pod.Name, c.charges[pod.UID])
		}
	}
	return text
}
