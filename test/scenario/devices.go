package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
)

// This file is devices, their classes and the claims to them: what users, drivers and kube-controller-manager write of them.

// devices are those of a world.
type devices struct {
	classes map[string]*resourceapi.DeviceClass
	slices  map[string]*resourceapi.ResourceSlice
	rules   map[string]*resourceapi.DeviceTaintRule
	// claims are by namespace/name.
	claims map[string]*resourceapi.ResourceClaim
	// unseen are those that kube-scheduler's plugins know already, and the state does not.
	unseen []*resourceapi.ResourceClaim
	// nodes are the devices by node, as the inventory has pushed them last.
	nodes     map[string]*kube.NodeDevices
	inventory *kube.DeviceInventory
}

// newDevices returns an empty set, which tells what nodes have.
func newDevices(tell func(cluster.Event)) devices {
	d := devices{
		classes: map[string]*resourceapi.DeviceClass{}, slices: map[string]*resourceapi.ResourceSlice{},
		rules:  map[string]*resourceapi.DeviceTaintRule{},
		claims: map[string]*resourceapi.ResourceClaim{}, nodes: map[string]*kube.NodeDevices{},
	}
	d.inventory = kube.NewDeviceInventory(func(seen *kube.NodeDevices) {
		d.nodes[seen.Node] = seen
		if len(seen.Devices)+len(seen.Uncounted) == 0 {
			delete(d.nodes, seen.Node)
		}
		tell(&cluster.DevicesSeen{Devices: seen})
	})
	return d
}

// objects are those that an API server would hold, by kind and name.
func (d *devices) objects() map[string]deviceObject {
	all := map[string]deviceObject{}
	for name, class := range d.classes {
		all["class "+name] = class
	}
	for name, slice := range d.slices {
		all["slice "+name] = slice
	}
	for name, rule := range d.rules {
		all["rule "+name] = rule
	}
	for name, claim := range d.claims {
		all["claim "+name] = claim
	}
	return all
}

// deviceObject is a class, a slice, a rule that taints devices, or a claim.
type deviceObject interface {
	metav1.Object
	runtime.Object
}

// applyDevices takes in an object that a story writes in full. It reports whether the object is one of these kinds.
func (w *world) applyDevices(object runtime.Object) bool {
	switch object := object.(type) {
	case *resourceapi.DeviceClass:
		w.setDeviceClass(object)
	case *resourceapi.ResourceSlice:
		w.setSlice(object)
	case *resourceapi.DeviceTaintRule:
		w.version(object, known(w.devices.rules[object.Name]), "rule ")
		w.devices.rules[object.Name] = object
		w.taintDevices()
	case *resourceapi.ResourceClaim:
		w.setClaim(object)
	default:
		return false
	}
	return true
}

// version gives an object of a name its next version, and when it is new its UID and its time.
func (w *world) version(object, before metav1.Object, kind string) {
	w.revision++
	object.SetResourceVersion(strconv.Itoa(w.revision))
	switch {
	case before != nil:
		object.SetUID(before.GetUID())
		object.SetCreationTimestamp(before.GetCreationTimestamp())
	case object.GetUID() == "":
		w.lives[kind+object.GetName()]++
		object.SetUID(types.UID(fmt.Sprint(kind, key(object.GetNamespace(), object.GetName()), "#", w.lives[kind+object.GetName()])))
		object.SetCreationTimestamp(metav1.NewTime(w.now))
	}
}

func (w *world) setDeviceClass(class *resourceapi.DeviceClass) {
	w.version(class, known(w.devices.classes[class.Name]), "deviceclass ")
	w.devices.classes[class.Name] = class
	w.tell(&cluster.DeviceClassSeen{Class: class})
	w.devices.inventory.SetClass(class)
}

func (w *world) setSlice(slice *resourceapi.ResourceSlice) {
	w.version(slice, known(w.devices.slices[slice.Name]), "slice ")
	w.devices.slices[slice.Name] = slice
	w.devices.inventory.SetSlice(w.devices.tainted(slice))
}

// taintDevices tells of all devices again when the rules have changed.
func (w *world) taintDevices() {
	for _, name := range slices.Sorted(maps.Keys(w.devices.slices)) {
		w.devices.inventory.SetSlice(w.devices.tainted(w.devices.slices[name]))
	}
}

// tainted returns the slice with the taints of the rules.
func (d *devices) tainted(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice = slice.DeepCopy()
	for _, rule := range d.rules {
		selects := rule.Spec.DeviceSelector
		for i := range slice.Spec.Devices {
			device := &slice.Spec.Devices[i]
			if selects == nil || (selects.Driver == nil || *selects.Driver == slice.Spec.Driver) &&
				(selects.Pool == nil || *selects.Pool == slice.Spec.Pool.Name) && (selects.Device == nil || *selects.Device == device.Name) {
				device.Taints = append(device.Taints, rule.Spec.Taint)
			}
		}
	}
	return slice
}

func (w *world) setClaim(claim *resourceapi.ResourceClaim) {
	name := key(claim.Namespace, claim.Name)
	w.version(claim, known(w.devices.claims[name]), "claim ")
	w.devices.claims[name] = claim
	w.tell(&cluster.ClaimSeen{Claim: claim})
}

// removeDevices deletes an object of these kinds and reports whether there is one.
func (w *world) removeDevices(kind, name string) bool {
	version := strconv.Itoa(w.revision + 1)
	switch class, slice, rule, claim := w.devices.classes[name], w.devices.slices[name], w.devices.rules[name], w.devices.claims[name]; {
	case kind == "deviceclass" && class != nil:
		class = class.DeepCopy()
		class.ResourceVersion = version
		delete(w.devices.classes, name)
		w.tell(&cluster.DeviceClassSeen{Class: class, Gone: true})
		w.devices.inventory.RemoveClass(name)
	case kind == "devices" && slice != nil:
		delete(w.devices.slices, name)
		w.devices.inventory.RemoveSlice(name)
	case kind == "rule" && rule != nil:
		delete(w.devices.rules, name)
		w.taintDevices()
	case kind == "claim" && claim != nil:
		claim = claim.DeepCopy()
		claim.ResourceVersion = version
		delete(w.devices.claims, name)
		w.tell(&cluster.ClaimSeen{Claim: claim, Gone: true})
	default:
		return false
	}
	w.revision++
	return true
}

// newDeviceClass reads a class: all devices of the driver of its name, or of the driver and the model that it says.
func newDeviceClass(one line) (*resourceapi.DeviceClass, error) {
	class, driver, model := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: one.name}}, one.name, ""
	for _, w := range one.words {
		switch w.key {
		case "provides":
			class.Spec.ExtendedResourceName = new(w.value)
		case "driver":
			driver = w.value
		case "model":
			model = w.value
		default:
			return nil, fmt.Errorf("a deviceclass has no %q", w.key)
		}
	}
	driver += ".example.com"
	text := fmt.Sprintf("device.driver == %q", driver)
	if model != "" {
		text += fmt.Sprintf(" && device.attributes[%q].model == %q", driver, model)
	}
	class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: text}}}
	return class, nil
}

// newSlice reads the devices of a node, DRIVER=n or DRIVER.MODEL=n, all of one driver, of which the first ones may be tainted.
func newSlice(one line) (*resourceapi.ResourceSlice, error) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: one.name}}
	slice.Spec.NodeName = &one.name
	slice.Spec.Pool = resourceapi.ResourcePool{Name: one.name, Generation: 1, ResourceSliceCount: 1}
	tainted := int32(0)
	for _, w := range one.words {
		n, err := number(w)
		switch {
		case err != nil:
			return nil, err
		case w.key == "tainted":
			tainted = n
			continue
		}
		driver, model, _ := strings.Cut(w.key, ".")
		if slice.Spec.Driver = driver + ".example.com"; driver != "gpu" {
			slice.Name = one.name + "-" + driver
		}
		for range n {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name:       fmt.Sprintf("%s-%d", driver, len(slice.Spec.Devices)),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"model": {StringValue: &model}},
			})
		}
	}
	for i := range min(int(tainted), len(slice.Spec.Devices)) {
		slice.Spec.Devices[i].Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return slice, nil
}

// newClaim reads what a claim asks for: CLASS:n,CLASS:n; where alternatives stand between bars, the first that there is.
// CLASS.MODEL selects a model of the driver of the class's name.
func newClaim(namespace, name, asks string) (*resourceapi.ResourceClaim, error) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for i, ask := range strings.Split(asks, ",") {
		request := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		alternatives := strings.Split(ask, "|")
		for j, alternative := range alternatives {
			class, count, _ := strings.Cut(alternative, ":")
			n, err := number(word{ask, count})
			if err != nil {
				return nil, err
			}
			if len(alternatives) == 1 {
				class, model, selects := strings.Cut(class, ".")
				request.Exactly = &resourceapi.ExactDeviceRequest{
					DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(n),
				}
				if selects {
					text := fmt.Sprintf("device.attributes[%q].model == %q", class+".example.com", model)
					request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: text}}}
				}
				continue
			}
			request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: fmt.Sprint("s", j), DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(n),
			})
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim, nil
}

// claimDevices does for a new pod what kube-controller-manager does: it makes its claims from templates, whose names say what
// they ask for; and for a pod that is on a node what its scheduler has done: it allocates the devices.
func (w *world) claimDevices(pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		if entry.ResourceClaimTemplateName == nil {
			continue
		}
		name := pod.Name + "-" + entry.Name
		claim, err := newClaim(pod.Namespace, name, *entry.ResourceClaimTemplateName)
		if err != nil {
			return err
		}
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
		w.setClaim(claim)
		pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses,
			corev1.PodResourceClaimStatus{Name: entry.Name, ResourceClaimName: &name})
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	for _, name := range claimsOf(pod) {
		if claim := w.devices.claims[name]; claim != nil {
			if err := w.allocate(claim.DeepCopy(), pod); err != nil {
				return err
			}
		}
	}
	return w.claimExtended(pod)
}

// claimExtended makes the claim that stands for what a pod that is on a node requests by extended resources of classes.
func (w *world) claimExtended(pod *corev1.Pod) error {
	var asks []string
	for name, amount := range pod.Spec.Containers[0].Resources.Requests {
		if node := w.nodes[pod.Spec.NodeName]; node != nil && !node.Status.Allocatable.Name(name, "").IsZero() {
			continue
		}
		for _, class := range slices.Sorted(maps.Keys(w.devices.classes)) {
			if slices.Contains(resourcesOfClass(w.devices.classes[class]), name) {
				asks = append(asks, fmt.Sprintf("%s:%d", class, amount.Value()))
			}
		}
	}
	if len(asks) == 0 {
		return nil
	}
	slices.Sort(asks)
	claim, err := newClaim(pod.Namespace, pod.Name+"-extended", strings.Join(asks, ","))
	if err != nil {
		return err
	}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
	claim.Annotations = map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"}
	return w.allocate(claim, pod)
}

// resourcesOfClass returns the resources that stand for devices of the class.
func resourcesOfClass(class *resourceapi.DeviceClass) []corev1.ResourceName {
	names := []corev1.ResourceName{corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class.Name)}
	if named := class.Spec.ExtendedResourceName; named != nil {
		names = append(names, corev1.ResourceName(*named))
	}
	return names
}

// claimsOf returns the claims that a pod names, by namespace/name.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if named := pod.Spec.ResourceClaims[i].ResourceClaimName; named != nil {
			names = append(names, key(pod.Namespace, *named))
		}
	}
	for i := range pod.Status.ResourceClaimStatuses {
		if named := pod.Status.ResourceClaimStatuses[i].ResourceClaimName; named != nil {
			names = append(names, key(pod.Namespace, *named))
		}
	}
	return names
}

// allocate gives a claim the first devices of the pod's node that nothing has, unless it has some, and reserves it for the pod.
func (w *world) allocate(claim *resourceapi.ResourceClaim, pod *corev1.Pod) error {
	if claim.Status.Allocation == nil {
		given := &resourceapi.AllocationResult{}
		claim.Status.Allocation = given
		taken := w.devices.allocated()
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			if request.Exactly == nil {
				return fmt.Errorf("claim %s: which alternative it has is not said", claim.Name)
			}
			if len(request.Exactly.Selectors) > 0 {
				return fmt.Errorf("claim %s: which devices it has is not said", claim.Name)
			}
			left := request.Exactly.Count
			if seen := w.devices.nodes[pod.Spec.NodeName]; seen != nil {
				for _, device := range seen.Devices {
					if left > 0 && !taken[device.ID] && slices.Contains(device.Classes, request.Exactly.DeviceClassName) {
						taken[device.ID] = true
						left--
						given.Devices.Results = append(given.Devices.Results, resourceapi.DeviceRequestAllocationResult{
							Request: request.Name, Driver: device.ID.Driver, Pool: device.ID.Pool, Device: device.ID.Device,
						})
					}
				}
			}
			if left > 0 {
				return fmt.Errorf("claim %s: node %s has %d devices too few", claim.Name, pod.Spec.NodeName, left)
			}
		}
	}
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod.Name, UID: pod.UID})
	w.setClaim(claim)
	return nil
}

// take lets another scheduler allocate all devices of nodes that nothing has.
func (w *world) take(nodes []string) {
	taken := w.devices.allocated()
	for _, node := range nodes {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "others", Name: node}}
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		results := &claim.Status.Allocation.Devices.Results
		for _, device := range w.devices.nodes[node].Devices {
			if !taken[device.ID] {
				*results = append(*results, resourceapi.DeviceRequestAllocationResult{Driver: device.ID.Driver, Pool: device.ID.Pool, Device: device.ID.Device})
			}
		}
		w.version(claim, nil, "claim ")
		w.devices.claims[key(claim.Namespace, claim.Name)] = claim
		w.devices.unseen = append(w.devices.unseen, claim)
	}
}

// seeTaken lets the state know the claims that it does not.
func (w *world) seeTaken() {
	for _, claim := range w.devices.unseen {
		w.tell(&cluster.ClaimSeen{Claim: claim})
	}
	w.devices.unseen = nil
}

// allocated are the devices that claims have.
func (d *devices) allocated() map[kube.DeviceID]bool {
	taken := map[kube.DeviceID]bool{}
	for _, claim := range d.claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			taken[kube.DeviceID{Driver: device.Driver, Pool: device.Pool, Device: device.Device}] = true
		}
	}
	return taken
}

// deallocate does for all claims what kube-controller-manager does: pods that are gone or have ended are taken out of a claim,
// and one without pods has no devices any longer; one that was made for such a pod is deleted.
func (w *world) deallocate() {
	for _, name := range slices.Sorted(maps.Keys(w.devices.claims)) {
		claim := w.devices.claims[name].DeepCopy()
		uses := func(uid types.UID) bool {
			for _, pod := range w.pods {
				if pod.UID == uid {
					return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed &&
						(pod.DeletionTimestamp == nil || pod.Spec.NodeName != "")
				}
			}
			return false
		}
		if owner := metav1.GetControllerOfNoCopy(claim); owner != nil && !uses(owner.UID) {
			w.removeDevices("claim", name)
			continue
		}
		before := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
			func(user resourceapi.ResourceClaimConsumerReference) bool { return !uses(user.UID) })
		if len(claim.Status.ReservedFor) == before {
			continue
		}
		if len(claim.Status.ReservedFor) == 0 {
			claim.Status.Allocation, claim.Finalizers = nil, nil
		}
		w.setClaim(claim)
	}
}

// checkDevices sees that no device is allocated to two claims, and that no claim is allocated on another node than a pod that it
// is reserved for.
func (w *world) checkDevices() error {
	holders := map[kube.DeviceID]string{}
	for _, name := range slices.Sorted(maps.Keys(w.devices.claims)) {
		claim := w.devices.claims[name]
		if claim.Status.Allocation == nil {
			continue
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			id := kube.DeviceID{Driver: device.Driver, Pool: device.Pool, Device: device.Device}
			if device.AdminAccess == nil && holders[id] != "" {
				return fmt.Errorf("device %s is allocated to claims %s and %s", id, holders[id], name)
			}
			holders[id] = name
		}
	}
	for _, pod := range w.pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, name := range claimsOf(pod) {
			claim := w.devices.claims[name]
			if claim == nil {
				continue
			}
			if claim.Status.Allocation == nil {
				return fmt.Errorf("pod %s is bound, and its claim %s has no devices", pod.Name, name)
			}
			for _, device := range claim.Status.Allocation.Devices.Results {
				if slice := w.devices.slices[device.Pool]; slice != nil && slice.Spec.NodeName != nil && *slice.Spec.NodeName != pod.Spec.NodeName {
					return fmt.Errorf("pod %s is bound to %s, and its claim %s has devices of %s", pod.Name, pod.Spec.NodeName, name, *slice.Spec.NodeName)
				}
			}
		}
	}
	return nil
}

// checkDeviceCounts sees that no node is given more devices of a class than it has: to pods that are placed there or nominated to
// it, and that are not ending. It looks at the nodes and the classes that the cycle has given something of. A claim counts once.
func (s *environment) checkDeviceCounts(o *outcome) error {
	given := map[string][]types.UID{}
	for _, decision := range o.decisions {
		for _, bind := range decision.Binds {
			given[bind.Node] = append(given[bind.Node], bind.Pod.UID)
		}
		for _, nomination := range decision.Nominations {
			given[nomination.Node] = append(given[nomination.Node], nomination.Pod.UID)
		}
	}
	delete(given, "")
	for node, fresh := range given {
		claims, asked, wanted := map[string]bool{}, map[string]int64{}, map[string]bool{}
		for _, pod := range s.world.pods {
			at := s.nodeOf(pod)
			if at == "" {
				at = pod.Status.NominatedNodeName
				if decided, is := s.nominated[pod.UID]; is {
					at = decided
				}
			}
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
			if at != node || ended || pod.DeletionTimestamp != nil || s.ending[pod.UID] {
				continue
			}
			for class, n := range s.world.asksOf(pod, node, claims) {
				asked[class] += n
				wanted[class] = wanted[class] || slices.Contains(fresh, pod.UID)
			}
		}
		for class := range wanted {
			there := int64(0)
			if seen := s.world.devices.nodes[node]; seen != nil {
				for _, device := range seen.Devices {
					if slices.Contains(device.Classes, class) {
						there++
					}
				}
			}
			if wanted[class] && asked[class] > there {
				return fmt.Errorf("node %s is given to pods with %d devices of class %s, and has %d", node, asked[class], class, there)
			}
		}
	}
	return nil
}

// asksOf returns how many devices of each class a pod asks for, or has, without those of the claims that are counted already.
func (w *world) asksOf(pod *corev1.Pod, node string, counted map[string]bool) map[string]int64 {
	asks := map[string]int64{}
	for _, name := range claimsOf(pod) {
		claim := w.devices.claims[name]
		if claim == nil || counted[name] {
			continue
		}
		counted[name] = true
		for i := range claim.Spec.Devices.Requests {
			if exactly := claim.Spec.Devices.Requests[i].Exactly; exactly != nil && exactly.AllocationMode == resourceapi.DeviceAllocationModeExactCount {
				asks[exactly.DeviceClassName] += exactly.Count
			}
		}
	}
	for name, amount := range pod.Spec.Containers[0].Resources.Requests {
		reported := resource.Quantity{}
		if object := w.nodes[node]; object != nil {
			reported = object.Status.Allocatable[name]
		}
		for class := range w.devices.classes {
			if reported.IsZero() && slices.Contains(resourcesOfClass(w.devices.classes[class]), name) {
				asks[class] += amount.Value()
			}
		}
	}
	return asks
}
