package cluster

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/model"
)

// claims are the ResourceClaims there are, and who uses them. What a pod asks for by claims is part of its request: so many
// devices of a class. Which devices these are, kube-scheduler's allocator says when the pod is placed.
type claims struct {
	known map[types.NamespacedName]*claimState
	// users are the pods that name a claim; of are the claims that were made for a pod, or are reserved for it. It does not name one
	// that kube-scheduler's plugin has made for its extended resources.
	users map[types.NamespacedName]map[types.UID]*podEntry
	of    map[types.UID]map[types.NamespacedName]struct{}
	// unbound are the pods of other schedulers that have no node yet and may still get one: the state holds nothing else of them.
	unbound map[types.UID]struct{}
	// holders are the claims that a device is allocated to: one, or several where the device allows that.
	holders map[kube.DeviceID][]*claimState
	// dirty are the claims for which it may be another pod that is charged, or none; charges are pods that may be charged otherwise.
	dirty   map[types.NamespacedName]struct{}
	charges map[types.UID]struct{}
}

// claimState is what is read of a claim. It is never changed, only replaced.
type claimState struct {
	object *resourceapi.ResourceClaim
	name   types.NamespacedName
	// asks is how many devices it asks for, by class; nil where that cannot be counted, and searched says why not. also says what
	// else it asks for, so that a number of devices is not enough; empty where the number is enough.
	asks           map[string]int64
	searched, also string
	// selectors are those of its requests.
	selectors []model.DeviceSelectors
	// classes are those that its requests name, sorted.
	classes []string
	// devices are those that it has; nil while none are allocated.
	devices []heldDevice
	// owner is the pod that the claim was made for, from a template or for its extended resources; empty for a claim of its own.
	owner types.UID
}

// heldDevice is a device that a claim has, and the class by which the claim has asked for it.
type heldDevice struct {
	id    kube.DeviceID
	class string
}

// allocated reports whether the claim has its devices.
func (c *claimState) allocated() bool { return c.object.Status.Allocation != nil }

// ClaimSeen is a new version of a ResourceClaim, or its end.
type ClaimSeen struct {
	Claim *resourceapi.ResourceClaim
	Gone  bool
}

func (e *ClaimSeen) object() (string, metav1.Object, bool) { return kindClaim, e.Claim, e.Gone }

func (e *ClaimSeen) apply(s *State, _ types.UID) Effect {
	name := types.NamespacedName{Namespace: e.Claim.Namespace, Name: e.Claim.Name}
	if before := s.claims.known[name]; before != nil {
		s.markNodes(before)
		s.claims.hold(before, false)
		delete(s.claims.known, name)
	}
	if !e.Gone {
		after := readClaim(e.Claim)
		s.claims.known[name] = after
		s.claims.hold(after, true)
	}
	s.claims.dirty[name] = struct{}{}
	return Effect{Schedule: true}
}

// hold keeps which claims have a device, and which are for a pod.
func (c *claims) hold(claim *claimState, holds bool) {
	for _, device := range claim.devices {
		others := slices.DeleteFunc(slices.Clone(c.holders[device.id]), func(other *claimState) bool { return other == claim })
		if holds {
			others = append(others, claim)
		}
		if c.holders[device.id] = others; len(others) == 0 {
			delete(c.holders, device.id)
		}
	}
	var pods []types.UID
	for _, consumer := range claim.object.Status.ReservedFor {
		pods = append(pods, consumer.UID)
	}
	if claim.owner != "" {
		pods = append(pods, claim.owner)
	}
	for _, pod := range pods {
		if c.charges[pod] = struct{}{}; holds {
			addTo(c.of, pod, claim.name, struct{}{})
		} else {
			dropFrom(c.of, pod, claim.name)
		}
	}
}

// forExtendedResources reports whether the claim stands for what its pod requests by extended resources. It adds no device to the
// request then, only the other classes that the devices are in.
func (c *claimState) forExtendedResources() bool {
	return c.owner != "" && c.object.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true"
}

// byResource returns the claims that were made for the extended resources of a pod: one, when no other program makes any.
func (c *claims) byResource(pod types.UID) iter.Seq[types.NamespacedName] {
	return func(yield func(types.NamespacedName) bool) {
		for name := range c.of[pod] {
			if claim := c.known[name]; claim.owner == pod && claim.forExtendedResources() && !yield(name) {
				return
			}
		}
	}
}

// anyByResource reports whether there is one.
func (c *claims) anyByResource(pod types.UID) bool {
	for range c.byResource(pod) {
		return true
	}
	return false
}

// readClaim reads a claim. A request for so many devices of a class takes as many, also with selectors. How many any other
// request takes is not known before its devices are allocated.
func readClaim(object *resourceapi.ResourceClaim) *claimState {
	claim := &claimState{object: object, name: types.NamespacedName{Namespace: object.Namespace, Name: object.Name}}
	classes := map[string]string{} // by request
	asks := map[string]int64{}
	for i := range object.Spec.Devices.Requests {
		request := &object.Spec.Devices.Requests[i]
		if why := uncountable(request); why != "" {
			claim.searched = fmt.Sprintf("its request %q %s", request.Name, why)
			for j := range request.FirstAvailable {
				classes[request.Name+"/"+request.FirstAvailable[j].Name] = request.FirstAvailable[j].DeviceClassName
			}
		}
		if request.Exactly != nil {
			classes[request.Name] = request.Exactly.DeviceClassName
			asks[request.Exactly.DeviceClassName] += max(1, request.Exactly.Count)
			if len(request.Exactly.Selectors) > 0 {
				claim.selectors = append(claim.selectors, selectorsOf(request.Exactly))
			}
		}
	}
	if len(object.Spec.Devices.Constraints) > 0 {
		claim.also = "it has constraints"
	}
	if claim.searched == "" {
		claim.asks = asks
	}
	claim.classes = slices.Compact(slices.Sorted(maps.Values(classes)))
	if given := object.Status.Allocation; given != nil {
		for i := range given.Devices.Results {
			if device := &given.Devices.Results[i]; device.AdminAccess == nil || !*device.AdminAccess {
				claim.devices = append(claim.devices, heldDevice{
					kube.DeviceID{Driver: device.Driver, Pool: device.Pool, Device: device.Device}, classes[device.Request]})
			}
		}
	}
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil && owner.Kind == "Pod" {
		claim.owner = owner.UID
	} else if owner != nil {
		claim.asks, claim.searched = nil, fmt.Sprintf("it belongs to %s %s", owner.Kind, owner.Name)
	}
	return claim
}

func selectorsOf(request *resourceapi.ExactDeviceRequest) model.DeviceSelectors {
	var expressions []string
	for i := range request.Selectors {
		text := "" // is no expression, which the allocator refuses
		if request.Selectors[i].CEL != nil {
			text = request.Selectors[i].CEL.Expression
		}
		expressions = append(expressions, text)
	}
	return model.NewDeviceSelectors(request.DeviceClassName, expressions)
}

// uncountable says why a request may take another number of devices than it says, or devices that are not counted; empty when
// it takes as many of its class.
func uncountable(request *resourceapi.DeviceRequest) string {
	exactly := request.Exactly
	switch {
	case exactly == nil:
		return "has alternatives (firstAvailable)"
	case exactly.AllocationMode != "" && exactly.AllocationMode != resourceapi.DeviceAllocationModeExactCount:
		return fmt.Sprintf("has the allocationMode %s", exactly.AllocationMode)
	case exactly.AdminAccess != nil && *exactly.AdminAccess:
		return "has adminAccess"
	case len(exactly.Tolerations) > 0:
		return "has tolerations"
	case exactly.Capacity != nil:
		return "has a capacity"
	}
	return ""
}

// podDevices is what the state knows of the devices that a pod asks for by claims. It is never changed, only replaced.
type podDevices struct {
	// own is the request without them.
	own model.Resources
	// claims are those that the pod names, as far as they have been made.
	claims []types.NamespacedName
	// made are those of them that are made for the pod from a template.
	made []types.NamespacedName
	// missing is the entry of spec.resourceClaims whose claim has not been made yet; empty when all have.
	missing string
}

// devicesOf returns what is known of the devices that a pod asks for by claims, or by resources that classes provide; nil when it
// asks for none.
func (s *State) devicesOf(pod *corev1.Pod, own model.Resources) *podDevices {
	if len(pod.Spec.ResourceClaims) == 0 && !s.devices.classes.requestsAny(own) {
		return nil
	}
	devices := &podDevices{own: own}
	for i := range pod.Spec.ResourceClaims {
		switch name, made, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); {
		case err != nil:
			devices.missing = pod.Spec.ResourceClaims[i].Name
		case name != nil: // else the template makes none
			devices.claims = append(devices.claims, types.NamespacedName{Namespace: pod.Namespace, Name: *name})
			if made {
				devices.made = append(devices.made, devices.claims[len(devices.claims)-1])
			}
		}
	}
	return devices
}

// mark marks the claims of a pod, so that it is found out again who is charged for them; nil is no pod.
func (c *claims) mark(r *podState) {
	if r == nil {
		return
	}
	for name := range c.of[r.task.UID] {
		c.dirty[name] = struct{}{}
	}
	if r.devices == nil && len(c.of[r.task.UID]) == 0 {
		return
	}
	if c.charges[r.task.UID] = struct{}{}; r.devices == nil {
		return
	}
	for _, name := range r.devices.claims {
		c.dirty[name] = struct{}{}
	}
}

// followClaims keeps the users of claims when what is known of a pod is replaced; nil is no pod.
func (s *State) followClaims(entry *podEntry, before, after *podState) {
	named := before != nil && before.devices != nil && len(before.devices.claims) > 0
	charged := after != nil && s.paysAlone(after) && (!named || slices.Equal(before.devices.claims, after.devices.claims))
	for _, r := range []*podState{before, after} {
		if !charged {
			s.claims.mark(r)
		}
		if r == nil || r.devices == nil {
			continue
		}
		for _, name := range r.devices.claims {
			if r == after {
				addTo(s.claims.users, name, entry.uid, entry)
			} else {
				dropFrom(s.claims.users, name, entry.uid)
			}
		}
		if r.task.Node != "" {
			s.devices.dirty[r.task.Node] = struct{}{}
		}
	}
}

// followUnbound keeps whether a pod is one of another scheduler that has no node yet; nil is a pod that is gone. What such a
// scheduler has allocated to it stays allocated meanwhile.
func (s *State) followUnbound(uid types.UID, pod *corev1.Pod) (effect Effect) {
	_, before := s.claims.unbound[uid]
	after := pod != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && !terminal(pod) && !s.schedulers[pod.Spec.SchedulerName]
	if before == after {
		return effect
	}
	if delete(s.claims.unbound, uid); after {
		s.claims.unbound[uid] = struct{}{}
	}
	for name := range s.claims.of[uid] {
		s.claims.dirty[name] = struct{}{}
		effect.Schedule = true
	}
	return effect
}

// inUse reports whether a pod is charged for the devices of a claim, or one of another scheduler is about to be bound with them.
func (s *State) inUse(claim *claimState) bool {
	return s.payer(claim) != nil || slices.ContainsFunc(claim.object.Status.ReservedFor, func(consumer resourceapi.ResourceClaimConsumerReference) bool {
		_, unbound := s.claims.unbound[consumer.UID]
		return unbound
	})
}

// payer returns the pod that is charged for the devices of a claim, so that each is counted once; nil when none is: they are no
// capacity then. That is the first pod that the claim is reserved for and that still has them; before they are allocated, the
// oldest that names the claim.
func (s *State) payer(claim *claimState) *podEntry {
	alive := func(uid types.UID) *podEntry {
		if entry, r := s.pods.find(uid); r != nil && !r.finished() {
			return entry
		}
		return nil
	}
	if claim.owner != "" {
		return alive(claim.owner)
	}
	if claim.allocated() {
		for _, consumer := range claim.object.Status.ReservedFor {
			if consumer.Resource != "pods" || consumer.APIGroup != "" {
				return nil
			}
			if entry := alive(consumer.UID); entry != nil {
				return entry
			}
		}
		return nil
	}
	var first *podEntry
	for uid, entry := range s.claims.users[claim.name] {
		if alive(uid) == nil {
			continue
		}
		if first == nil || model.CompareTasks(&entry.record.task, &first.record.task) < 0 {
			first = entry
		}
	}
	return first
}

// heldOn reports whether one of the claims is charged to a pod on the node.
func (s *State) heldOn(node string, holders []*claimState) bool {
	return slices.ContainsFunc(holders, func(claim *claimState) bool {
		payer := s.payer(claim)
		return payer != nil && payer.record.task.Node == node
	})
}

// deviceOf returns a device of a node by its slices, nil when it has none of that name.
func (s *State) deviceOf(node string, id kube.DeviceID) *kube.Device {
	if seen := s.devices.nodes[node]; seen != nil {
		for i := range seen.Devices {
			if seen.Devices[i].ID == id {
				return &seen.Devices[i]
			}
		}
	}
	return nil
}

// heldWithoutSlice returns the classes of each device that a pod on the node holds and that no slice has any longer.
func (s *State) heldWithoutSlice(node string, entry *podEntry) (classes [][]string) {
	if entry.record.devices == nil {
		return nil
	}
	for _, name := range slices.AppendSeq(slices.Clone(entry.record.devices.claims), s.claims.byResource(entry.uid)) {
		claim := s.claims.known[name]
		if claim == nil || s.payer(claim) != entry {
			continue
		}
		for _, device := range claim.devices {
			if s.deviceOf(node, device.id) == nil {
				classes = append(classes, s.countedIn(device.class))
			}
		}
	}
	return classes
}

// chargeDevices works out again what a pod is charged for the devices of its claims.
func (s *State) chargeDevices(entry *podEntry) {
	r := entry.record
	if r == nil || r.finished() || r.unreadable() {
		return
	}
	if r.devices == nil {
		if !s.claims.anyByResource(entry.uid) {
			return
		}
		with := *r // the class has provided what it requests, and does not any longer
		with.devices = &podDevices{own: r.task.Request}
		r = &with
	}
	request, asked := s.withDevices(r)
	if request.Equal(r.task.Request) && asked.Equal(r.task.Devices) {
		return
	}
	after := *r
	after.task.Request, after.task.Devices = request, asked
	after.task.MayUseDeviceClass = s.devices.classes.requestsAny(after.devices.own)
	after.task.Shape = shapeOf(s.dimensions, &after.task)
	s.put(entry, &after)
}

// paysAlone reports whether a pod has claims, and each one is made for it or for no pod, is named by no other pod, and has no
// devices yet: what the pod is charged for depends on no other pod and no node then, and nothing else depends on the pod.
func (s *State) paysAlone(r *podState) bool {
	if r.devices == nil || r.devices.missing != "" || len(r.devices.claims) == 0 {
		return false
	}
	uid, made := r.task.UID, 0
	for _, name := range r.devices.claims {
		claim, users := s.claims.known[name], s.claims.users[name]
		if claim == nil || claim.allocated() || claim.owner != "" && claim.owner != uid || len(users) > 1 || len(users) == 1 && users[uid] == nil {
			return false
		}
		if _, has := s.claims.of[uid][name]; has {
			made++
		}
	}
	return made == len(s.claims.of[uid])
}

// withDevices returns what a pod requests with the devices of its claims. Before these are allocated that is what the claims
// ask for, then the devices themselves, each in every class that selects it. Of what a pod holds, the part is kept that does not
// become free when it leaves: what other pods use, too, and what no other pod could be given.
func (s *State) withDevices(r *podState) (model.Resources, *model.Devices) {
	own := r.devices.own.Clone()
	if unoffered := r.task.Request.At(model.Unoffered); unoffered > 0 {
		own.Set(model.Unoffered, unoffered)
	}
	request, asked, alone := own.Clone(), &model.Devices{}, s.paysAlone(r)
	if r.devices.missing != "" {
		asked.Searched = fmt.Sprintf("the claim of resourceClaims %q is not there", r.devices.missing)
	}
	hold := func(device heldDevice, shared, withOthers, requested bool) {
		classes, free := s.countedIn(device.class), false
		if there := s.deviceOf(r.task.Node, device.id); there != nil {
			classes, free = there.Classes, !there.Tainted && !shared && len(s.claims.holders[device.id]) == 1
		}
		if !free {
			s.addDevice(&asked.Kept, classes, 1)
		}
		if withOthers {
			s.addDevice(&asked.Shared, classes, 1)
		}
		if requested {
			classes = s.exceptRequested(classes, device.class, own)
		}
		s.addDevice(&request, classes, 1)
	}
	uncounted := func(claim *claimState) {
		for _, class := range claim.classes {
			for _, in := range s.countedIn(class) {
				if position, known := s.devices.classes.positions[in]; known && !slices.Contains(asked.Uncounted, position) {
					asked.Uncounted = append(asked.Uncounted, position)
				}
			}
		}
	}
	for _, name := range r.devices.claims {
		claim := s.claims.known[name]
		if claim == nil {
			asked.Searched = fmt.Sprintf("claim %s is not there", name.Name)
			continue
		}
		switch payer := s.payer(claim); {
		case claim.owner != r.task.UID && slices.Contains(r.devices.made, name):
			asked.Searched = fmt.Sprintf("claim %s was not made for the pod", name.Name)
		case !alone && (payer == nil || payer.uid != r.task.UID):
			asked.Searched = fmt.Sprintf("claim %s is shared with other pods", name.Name)
			if !claim.allocated() && (payer == nil || payer.record.task.Job != r.task.Job) { // it may be the first to be given the devices
				uncounted(claim)
			}
		case claim.allocated() && !r.task.Status.HasNode():
			asked.Searched = fmt.Sprintf("claim %s has devices already", name.Name)
			uncounted(claim)
		case claim.allocated():
			shared, withOthers := s.isShared(name, r.task.Job)
			for _, device := range claim.devices {
				hold(device, shared, withOthers, false)
			}
		case claim.searched != "":
			asked.Searched = fmt.Sprintf("claim %s: %s", name.Name, claim.searched)
			uncounted(claim)
		default:
			for class, n := range claim.asks {
				s.addDevice(&request, s.countedIn(class), n)
			}
			asked.Selectors = append(asked.Selectors, claim.selectors...)
			if len(s.claims.users[name]) > 1 {
				asked.Searched = fmt.Sprintf("claim %s is shared with other pods", name.Name)
			} else if claim.also != "" {
				asked.Searched = fmt.Sprintf("claim %s: %s", name.Name, claim.also)
			}
			for _, class := range claim.classes {
				if _, there := s.devices.classes.positions[class]; !there {
					asked.Searched = fmt.Sprintf("claim %s: DeviceClass %s is not there", name.Name, class)
				}
			}
		}
	}
	given := false
	for name := range s.claims.byResource(r.task.UID) {
		for _, device := range s.claims.known[name].devices {
			if r.task.Status.HasNode() {
				hold(device, false, false, true)
				given = true
			}
		}
	}
	if !given {
		s.chargeOuter(&request, own)
	}
	slices.Sort(asked.Uncounted)
	asked.Claimed = request.Clone()
	asked.Claimed.Sub(own)
	if len(r.task.Pod.Spec.ResourceClaims) == 0 && len(asked.Kept) == 0 {
		asked = nil
	}
	return request, asked
}

// chargeOuter adds to what a pod asks for by resources of classes the classes around these, as for claims. It does not where a
// node reports such a resource: there the pod would take no device of a class, and what it does not take would keep it away.
func (s *State) chargeOuter(request *model.Resources, own model.Resources) {
	for class, position := range s.devices.classes.positions {
		if own.At(position) > 0 && s.offered.reported[s.dimensions.Name(position)] == 0 {
			outer := slices.DeleteFunc(s.countedIn(class), func(in string) bool { return in == class })
			s.addDevice(request, outer, own.At(position))
		}
	}
}

// isShared reports whether several pods with a node use a claim: its devices stay allocated until the last of them is gone. It
// reports, too, whether one of them stays that is of another job than this.
func (s *State) isShared(claim types.NamespacedName, job model.JobKey) (shared, withOthers bool) {
	users := 0
	for _, entry := range s.claims.users[claim] {
		if entry.record != nil && entry.record.task.Status.HasNode() {
			task := &entry.record.task
			users++
			withOthers = withOthers || task.Job != job && task.Job != model.JobKey{} && task.Status != model.Releasing
		}
	}
	return users > 1, withOthers
}

// exceptRequested returns the classes of a device that a pod has by an extended resource, without the class that its request has
// the device in: the one by which it was allocated, or the one that has provided the resource since.
func (s *State) exceptRequested(classes []string, allocated string, own model.Resources) []string {
	requests := func(class string) bool {
		position, known := s.devices.classes.positions[class]
		return known && own.At(position) > 0
	}
	at := slices.Index(classes, allocated)
	if at < 0 || !requests(allocated) {
		at = slices.IndexFunc(classes, requests)
	}
	if at < 0 {
		return classes
	}
	return slices.Delete(slices.Clone(classes), at, at+1)
}

// addDevice adds devices to the amounts of the classes that they are in.
func (s *State) addDevice(to *model.Resources, classes []string, n int64) {
	for _, class := range classes {
		if position, known := s.devices.classes.positions[class]; known {
			to.Set(position, min(to.At(position)+n, model.MaxAmount))
		}
	}
}

// leavesFrom returns the node with the devices of a claim that is still allocated although the pods that it is reserved for are
// gone, or have ended; empty when there are none. kube-controller-manager takes such devices back (syncClaim in
// kubernetes/pkg/controller/resourceclaim): soon, or when it runs again.
func (s *State) leavesFrom(claim *claimState) string {
	if len(claim.object.Status.ReservedFor) == 0 && claim.object.DeletionTimestamp == nil || s.inUse(claim) {
		return ""
	}
	for _, consumer := range claim.object.Status.ReservedFor {
		if consumer.Resource != "pods" || consumer.APIGroup != "" {
			return ""
		}
	}
	for _, device := range claim.devices {
		for node := range s.devices.pools[poolOf(device.id)] {
			if s.deviceOf(node, device.id) != nil {
				return node
			}
		}
	}
	return ""
}
