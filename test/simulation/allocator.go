package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/kube"
)

// This file stands in for kube-scheduler's DynamicResources and for kube.Reservations, which hear of claims and devices on
// goroutines of their own: it gives the first free devices of a node, by what the process has received.

// deviceKube is kube-scheduler's plugins as one process has them.
type deviceKube struct {
	*kube.Plugins
	p *process
}

// deviceReservation is what is reserved for a pod that has a node and is not bound yet.
type deviceReservation struct {
	pod    *corev1.Pod
	node   string
	group  fwk.PodGroupCycleState
	grants []deviceGrant
	// begun reports that something of it may be written, abandoned that it is not to be.
	begun, abandoned bool
}

// deviceGrant is what a pod gets of one claim.
type deviceGrant struct {
	// claim is its namespace and name; empty for the one that is made for extended resources, of which spec says what it asks for.
	claim string
	uid   types.UID
	spec  []resourceapi.DeviceRequest
	// results are nil where the claim has its devices already; fresh reports that it had none when the node was chosen.
	results []resourceapi.DeviceRequestAllocationResult
	fresh   bool
}

// Plugin returns the stand-in for DynamicResources.
func (d deviceKube) Plugin(name string) fwk.Plugin {
	if name == "DynamicResources" {
		return deviceFilter{Plugin: d.Plugins.Plugin(name), deviceKube: d}
	}
	return d.Plugins.Plugin(name)
}

// HasDeviceChoice reports that no claim prefers devices.
func (d deviceKube) HasDeviceChoice(*corev1.Pod) bool { return false }

// ByDeviceClass reports whether a class that the process knows provides the resource.
func (d deviceKube) ByDeviceClass(name corev1.ResourceName) bool { return d.p.classOf(name) != "" }

// Reserve reserves devices of the node for the pod.
func (d deviceKube) Reserve(_ context.Context, pod *corev1.Pod, node *corev1.Node, group fwk.PodGroupCycleState) (bool, *fwk.Status) {
	if d.p.reserved[pod.UID] != nil {
		return false, refused("what was set aside for the pod before is still being given back")
	}
	grants, why := d.p.allocate(pod, node, group)
	switch {
	case why != "":
		return false, refused(why)
	case len(grants) == 0:
		return false, nil
	}
	d.p.reserved[pod.UID] = &deviceReservation{pod: pod, node: node.Name, group: group, grants: grants}
	return true, nil
}

func refused(why string) *fwk.Status { return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why) }

// Unreserve takes back what Reserve has reserved.
func (d deviceKube) Unreserve(pod types.UID) { delete(d.p.reserved, pod) }

// Confirm ends the reservation of a pod that is bound.
func (d deviceKube) Confirm(pod types.UID) { delete(d.p.reserved, pod) }

// Abandon keeps what is not written yet from being written.
func (d deviceKube) Abandon(pod types.UID) {
	if h := d.p.reserved[pod]; h != nil {
		h.abandoned = true
	}
}

// IsOrphaned makes a reservation of the claims that are reserved for a pod without a node.
func (d deviceKube) IsOrphaned(pod *corev1.Pod) bool {
	if d.p.reserved[pod.UID] != nil {
		return false
	}
	h := &deviceReservation{pod: pod, begun: true}
	for _, name := range d.p.claimNames() {
		claim := d.p.claimNow(name)
		if isReservedFor(claim, pod.UID) || isMadeFor(claim, pod.UID) {
			h.grants = append(h.grants, deviceGrant{claim: name, uid: claim.UID, fresh: true})
		}
	}
	if len(h.grants) == 0 {
		return false
	}
	d.p.reserved[pod.UID] = h
	return true
}

// deviceFilter asks for one node.
type deviceFilter struct {
	fwk.Plugin
	deviceKube
}

// Name is for fwk.Plugin.
func (deviceFilter) Name() string { return "DynamicResources" }

// PreFilter lets the pod on no node when a claim is missing.
func (f deviceFilter) PreFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if _, why := f.p.claimsOf(pod); why != "" {
		return nil, refused(why)
	}
	return nil, nil
}

// PreFilterExtensions are none.
func (deviceFilter) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter reports whether the node has free devices.
func (f deviceFilter) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	var group fwk.PodGroupCycleState
	if state.IsPodGroupSchedulingCycle() {
		group = state.GetPodGroupSchedulingCycle()
	}
	if _, why := f.p.allocate(pod, node.Node(), group); why != "" {
		return fwk.NewStatus(fwk.Unschedulable, why)
	}
	return nil
}

// Score is for fwk.ScorePlugin: no node is better than another one.
func (deviceFilter) Score(context.Context, fwk.CycleState, *corev1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}

// ScoreExtensions are none.
func (deviceFilter) ScoreExtensions() fwk.ScoreExtensions { return nil }

// classOf is the class that provides an extended resource, empty when none does.
func (p *process) classOf(name corev1.ResourceName) string {
	for _, class := range sortedNames(p.told[kindClass]) {
		provides := p.told[kindClass][class].object.(*resourceapi.DeviceClass).Spec.ExtendedResourceName
		if string(name) == resourceapi.ResourceDeviceClassPrefix+class || provides != nil && *provides == string(name) {
			return class
		}
	}
	return ""
}

// claimNow is a claim as the process has received it, or as its own write has left it since; nil when there is none.
func (p *process) claimNow(name string) *resourceapi.ResourceClaim {
	claim, _ := p.told[kindClaim][name].object.(*resourceapi.ResourceClaim)
	if mine := p.wrote[name]; mine != nil && (claim == nil || versionOf(mine) > versionOf(claim)) {
		return mine
	}
	return claim
}

// claimNames are those of all claims that the process knows.
func (p *process) claimNames() []string {
	names := sortedNames(p.told[kindClaim])
	for _, name := range sortedNames(p.wrote) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func isReservedFor(claim *resourceapi.ResourceClaim, pod types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == pod })
}

// isMadeFor reports whether a claim stands for the extended resources of a pod.
func isMadeFor(claim *resourceapi.ResourceClaim, pod types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(claim)
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && owner != nil && owner.UID == pod
}

// claimsOf are the names of the claims of a pod, all of which are there, or why one is not.
func (p *process) claimsOf(pod *corev1.Pod) (names []string, why string) {
	for _, name := range namedClaims(pod) {
		if name == "" {
			return nil, "pod's claim has not been made yet"
		}
		claim := p.claimNow(name)
		owner := (*metav1.OwnerReference)(nil)
		if claim != nil {
			owner = metav1.GetControllerOfNoCopy(claim)
		}
		switch {
		case claim == nil:
			return nil, fmt.Sprintf("resourceclaim %q not found", name)
		case claim.DeletionTimestamp != nil:
			return nil, fmt.Sprintf("resourceclaim %q is being deleted", name)
		case owner != nil && owner.UID != pod.UID:
			return nil, fmt.Sprintf("resourceclaim %q was not created for the pod", name)
		}
		names = append(names, name)
	}
	return names, ""
}

// namedClaims are the claims of a pod by namespace and name; empty for one that is not made yet.
func namedClaims(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		entry, name := &pod.Spec.ResourceClaims[i], ""
		if entry.ResourceClaimName != nil {
			name = key(pod.Namespace, *entry.ResourceClaimName)
		}
		for _, status := range pod.Status.ResourceClaimStatuses {
			if status.Name == entry.Name && status.ResourceClaimName != nil && name == "" {
				name = key(pod.Namespace, *status.ResourceClaimName)
			}
		}
		names = append(names, name)
	}
	return names
}

// allocate finds devices of a node for the claims of a pod, or says why there are none.
func (p *process) allocate(pod *corev1.Pod, node *corev1.Node, group fwk.PodGroupCycleState) (grants []deviceGrant, why string) {
	names, why := p.claimsOf(pod)
	if why != "" {
		return nil, why
	}
	a := p.newAllocation(node.Name)
	for _, name := range names {
		claim := p.claimNow(name)
		grant := deviceGrant{claim: name, uid: claim.UID, fresh: claim.Status.Allocation == nil}
		if !grant.fresh {
			for _, device := range claim.Status.Allocation.Devices.Results {
				if device.Pool != node.Name {
					return nil, "resourceclaim not available on the node"
				}
			}
			if len(claim.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
				return nil, "resourceclaim in use"
			}
		} else if other, its := p.allocating(claim.UID); other != nil {
			if group == nil || other.group != group || other.node != node.Name {
				return nil, "resourceclaim must be allocated, which is in progress"
			}
			grant.results = its.results
		} else {
			a.add(len(grants), claim.Spec.Devices.Requests)
		}
		grants = append(grants, grant)
	}
	if made := p.extendedRequests(pod, node); len(made) > 0 {
		for _, name := range p.claimNames() {
			if isMadeFor(p.claimNow(name), pod.UID) { // of a start that came to no end: IsOrphaned finds it
				return nil, "the claim for its extended resources is there already"
			}
		}
		a.add(len(grants), made)
		grants = append(grants, deviceGrant{spec: made, fresh: true})
	}
	if !a.place(a.wanted) {
		return nil, "cannot allocate all claims"
	}
	for _, given := range a.given {
		grants[given.grant].results = append(grants[given.grant].results, given.result)
	}
	return grants, ""
}

// allocating is the reservation that has devices for a claim which is not known to have them.
func (p *process) allocating(claim types.UID) (*deviceReservation, *deviceGrant) {
	for _, h := range p.reserved {
		for i := range h.grants {
			if h.grants[i].uid == claim && len(h.grants[i].results) > 0 {
				return h, &h.grants[i]
			}
		}
	}
	return nil, nil
}

// extendedRequests are those of a pod that a class has to provide on the node.
func (p *process) extendedRequests(pod *corev1.Pod, node *corev1.Node) (requests []resourceapi.DeviceRequest) {
	for _, name := range []corev1.ResourceName{gpuResource, bigResource, nicResource} {
		amount, asks := pod.Spec.Containers[0].Resources.Requests[name]
		if class := p.classOf(name); asks && class != "" && node.Status.Allocatable.Name(name, "").IsZero() {
			requests = append(requests, resourceapi.DeviceRequest{Name: class, Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: amount.Value(),
			}})
		}
	}
	return requests
}

// allocation is a search for devices of one node.
type allocation struct {
	free   []kube.Device
	taken  map[kube.DeviceID]bool
	wanted []wantedDevices
	given  []givenDevice
}

// wantedDevices is a request: one of its choices is enough.
type wantedDevices struct {
	grant   int
	choices []deviceChoice
}

type deviceChoice struct {
	request, class string
	n              int64
	big            bool
}

type givenDevice struct {
	grant  int
	result resourceapi.DeviceRequestAllocationResult
}

func (p *process) newAllocation(node string) *allocation {
	a := &allocation{taken: p.takenDevices()}
	if seen := p.devices[node]; seen != nil {
		for _, device := range seen.Devices {
			if !device.Tainted && !a.taken[device.ID] {
				a.free = append(a.free, device)
			}
		}
	}
	return a
}

// takenDevices are those that claims have, or reservations.
func (p *process) takenDevices() map[kube.DeviceID]bool {
	taken := map[kube.DeviceID]bool{}
	take := func(results []resourceapi.DeviceRequestAllocationResult) {
		for _, device := range results {
			taken[kube.DeviceID{Driver: device.Driver, Pool: device.Pool, Device: device.Device}] = true
		}
	}
	for _, name := range p.claimNames() {
		if given := p.claimNow(name).Status.Allocation; given != nil {
			take(given.Devices.Results)
		}
	}
	for _, h := range p.reserved {
		for i := range h.grants {
			take(h.grants[i].results)
		}
	}
	return taken
}

func (a *allocation) add(grant int, requests []resourceapi.DeviceRequest) {
	for i := range requests {
		wanted := wantedDevices{grant: grant}
		if exactly := requests[i].Exactly; exactly != nil {
			wanted.choices = []deviceChoice{{requests[i].Name, exactly.DeviceClassName, exactly.Count, len(exactly.Selectors) > 0}}
		}
		for _, sub := range requests[i].FirstAvailable {
			wanted.choices = append(wanted.choices, deviceChoice{requests[i].Name + "/" + sub.Name, sub.DeviceClassName, sub.Count, false})
		}
		a.wanted = append(a.wanted, wanted)
	}
}

// place gives devices to all requests, depth first, and reports whether there are enough.
func (a *allocation) place(wanted []wantedDevices) bool {
	if len(wanted) == 0 {
		return true
	}
	return slices.ContainsFunc(wanted[0].choices, func(choice deviceChoice) bool { return a.take(wanted, choice, choice.n, 0) })
}

// take gives so many devices from that one on to the first request, and then to the others.
func (a *allocation) take(wanted []wantedDevices, choice deviceChoice, left int64, from int) bool {
	if left == 0 {
		return a.place(wanted[1:])
	}
	for i := from; i < len(a.free); i++ {
		device := a.free[i]
		if a.taken[device.ID] || !slices.Contains(device.Classes, choice.class) || choice.big && !slices.Contains(device.Classes, classBig) {
			continue
		}
		a.taken[device.ID] = true
		a.given = append(a.given, givenDevice{wanted[0].grant, resourceapi.DeviceRequestAllocationResult{
			Request: choice.request, Driver: device.ID.Driver, Pool: device.ID.Pool, Device: device.ID.Device,
		}})
		if a.take(wanted, choice, left-1, i+1) {
			return true
		}
		a.given = a.given[:len(a.given)-1]
		delete(a.taken, device.ID)
	}
	return false
}

// prepare writes the claims of a pod at the server, one after the other. cut ends it after the first one.
func (p *process) prepare(uid types.UID, cut bool) error {
	h := p.reserved[uid]
	switch {
	case h == nil:
		return errors.New("nothing is set aside for the pod")
	case h.abandoned:
		return context.Canceled
	}
	for i := range h.grants {
		if i > 0 && cut {
			return errLost
		}
		if err := p.writeGrant(h, &h.grants[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *process) writeGrant(h *deviceReservation, grant *deviceGrant) error {
	if grant.claim == "" {
		p.world.made++
		made := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: h.pod.Namespace, Name: fmt.Sprintf("%s-extended-resources-%d", h.pod.Name, p.world.made),
			Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
			OwnerReferences: []metav1.OwnerReference{ownerOf(h.pod)},
		}}
		made.Spec.Devices.Requests = grant.spec
		if p.server.pod(keyOf(h.pod)) == nil { // the garbage collector deletes it at once
			return errors.New("the owner of the claim is gone")
		}
		p.server.create(kindClaim, made)
		grant.claim, grant.uid = keyOf(made), made.UID
		p.wrote[grant.claim] = made
	}
	claim := p.server.claim(grant.claim)
	switch {
	case claim == nil || claim.UID != grant.uid:
		return notFound("resourceclaims", grant.claim)
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s got deleted in the meantime", grant.claim)
	case isReservedFor(claim, h.pod.UID):
		return nil
	}
	claim = claim.DeepCopy()
	if given := claim.Status.Allocation; given == nil && len(grant.results) == 0 {
		return fmt.Errorf("claim %s has lost its devices", grant.claim)
	} else if given != nil && len(grant.results) > 0 && !slices.EqualFunc(given.Devices.Results, grant.results, sameDevice) {
		return fmt.Errorf("claim %s got allocated elsewhere in the meantime", grant.claim)
	} else if given == nil {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
		claim.Status.Allocation.Devices.Results = grant.results
	}
	claim.Status.ReservedFor = append(slices.Clone(claim.Status.ReservedFor), resourceapi.ResourceClaimConsumerReference{
		Resource: "pods", Name: h.pod.Name, UID: h.pod.UID,
	})
	p.server.update(kindClaim, claim)
	p.wrote[grant.claim] = claim
	return nil
}

func sameDevice(a, b resourceapi.DeviceRequestAllocationResult) bool {
	return a.Driver == b.Driver && a.Pool == b.Pool && a.Device == b.Device
}

// release gives back what a pod will not be bound with.
func (p *process) release(uid types.UID) error {
	h := p.reserved[uid]
	if h == nil {
		return nil
	}
	for i := range h.grants {
		grant := &h.grants[i]
		claim := p.server.claim(grant.claim)
		if !h.begun || claim == nil || claim.UID != grant.uid {
			continue
		}
		claim = claim.DeepCopy()
		before := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor, func(user resourceapi.ResourceClaimConsumerReference) bool { return user.UID == uid })
		if before > len(claim.Status.ReservedFor) {
			if len(claim.Status.ReservedFor) == 0 && grant.fresh {
				claim.Status.Allocation = nil
			}
			p.server.update(kindClaim, claim)
			p.wrote[grant.claim] = claim
		}
		if isMadeFor(claim, uid) {
			p.server.remove(kindClaim, grant.claim)
			delete(p.wrote, grant.claim)
		}
	}
	return nil
}

// beginPreparer takes down that something of a reservation may be written.
func (p *process) beginPreparer(call commit.Call) {
	if h := p.reserved[call.Pod.UID]; h != nil && call.Kind == commit.CallPrepare {
		h.begun = true
	}
}

// endPreparer ends a reservation that was to be released, whether that has succeeded or not.
func (p *process) endPreparer(call commit.Call) {
	if call.Kind == commit.CallRelease {
		delete(p.reserved, call.Pod.UID)
	}
}

// servePreparer carries out what goes to the preparer of the process.
func (p *process) servePreparer(call commit.Call, cut bool) error {
	if skip := p.config.Sabotage.Prepare; skip != nil && skip(p, call) {
		return nil
	}
	if call.Kind == commit.CallRelease {
		return p.release(call.Pod.UID)
	}
	return p.prepare(call.Pod.UID, cut)
}
