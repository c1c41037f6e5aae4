package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// This file is devices: DeviceClasses, the ResourceSlices of nodes, and what happens to them. All of it is drawn from random
// numbers of its own, so that a cluster without devices is what it was before there were any.

// The classes. All devices of classBig are of classGPU, too.
const (
	classGPU = "gpu"
	classBig = "big"
	classNIC = "nic"
)

// gpuResource is the extended resource that classGPU provides, bigResource and nicResource those that are made of the names.
const (
	gpuResource = corev1.ResourceName("example.com/gpu")
	bigResource = corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + classBig)
	nicResource = corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + classNIC)
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
)

// isBig selects the devices of classBig.
const isBig = `device.attributes["` + gpuDriver + `"].model == "big"`

// foundDevices makes the classes and, with each node, its devices.
func (w *world) foundDevices() {
	selectors := map[string]string{
		classGPU: fmt.Sprintf("device.driver == %q", gpuDriver),
		classBig: fmt.Sprintf("device.driver == %q && device.attributes[%q].model == \"big\"", gpuDriver, gpuDriver),
		classNIC: fmt.Sprintf("device.driver == %q", nicDriver),
	}
	for _, name := range sortedNames(selectors) {
		class, selector := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}, selectors[name]
		class.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: selector}}}
		if name == classGPU {
			class.Spec.ExtendedResourceName = new(string(gpuResource))
		}
		w.later(0, "a class of devices is made", func() { w.server.create(kindClass, class) })
	}
}

// addDevices lets the drivers of a new node say which devices it has, after a while.
func (w *world) addDevices(node string) {
	d := newRandom(w.config.Seed, fmt.Sprint("devices of ", node, w.server.version))
	w.later(d.span(0, 2*time.Second), "a driver says which devices a node has", func() {
		w.publish(node, gpuDriver, drawDevices(d, d.number(1, 5)))
	})
	if d.chance(400) {
		w.later(d.span(0, 5*time.Second), "a driver says which devices a node has", func() {
			w.publish(node, nicDriver, drawDevices(d, d.number(1, 2)))
		})
	}
}

// drawDevices draws so many devices, some of them big.
func drawDevices(d rng, n int) (all []resourceapi.Device) {
	for i := range n {
		one := resourceapi.Device{Name: fmt.Sprint("d", i), Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model": {StringValue: new(pick(d, "small", "small", "big"))},
		}}
		all = append(all, one)
	}
	return all
}

// publish stores the slice of a node and a driver, in place of the one before; nothing without the node.
func (w *world) publish(node, driver string, all []resourceapi.Device) {
	if w.server.node(node) == nil {
		return
	}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node + "-" + driver}}
	slice.Spec.NodeName, slice.Spec.Driver, slice.Spec.Devices = new(node), driver, all
	slice.Spec.Pool = resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1}
	if before := w.server.slice(slice.Name); before != nil {
		slice.ObjectMeta = *before.ObjectMeta.DeepCopy()
		slice.Spec.Pool.Generation = before.Spec.Pool.Generation + 1
		w.server.update(kindSlice, slice)
		return
	}
	w.server.create(kindSlice, slice)
}

func (s *server) slice(name string) *resourceapi.ResourceSlice {
	slice, _ := s.objects[kindSlice][name].(*resourceapi.ResourceSlice)
	return slice
}

func (s *server) claim(name string) *resourceapi.ResourceClaim {
	claim, _ := s.objects[kindClaim][name].(*resourceapi.ResourceClaim)
	return claim
}

// deviceActions are the steps about devices, and how often each is.
func deviceActions() []step {
	return []step{
		{"submit gangs with devices", 20, (*world).submitWithDevices},
		{"submit a job with devices", 14, (*world).submitOneWithDevices},
		{"a node has other devices", 3, (*world).changeDevices},
		{"devices are tainted or not", 4, (*world).taintSomeDevices},
		{"the devices of a node are gone", 2, (*world).removeDevices},
		{"the claim controller ends", 4, (*world).endController},
	}
}

// drawDevicePlan draws more steps than others do: claims hold devices only where there are many of them.
func drawDevicePlan(d rng) []Step {
	return append(drawPlanOf(d, deviceActions()), drawPlanOf(d, deviceActions())...)
}

// changeDevices lets a driver publish fewer or more devices, of the same names, and perhaps of another model.
func (w *world) changeDevices(d rng) {
	name, ok := w.some(d, kindSlice)
	if !ok {
		return
	}
	slice := w.server.slice(name)
	all := slices.Clone(slice.Spec.Devices)
	if d.chance(700) {
		all = all[:d.number(0, len(all))]
	} else {
		all = drawDevices(d, d.number(1, 6))
	}
	w.publish(*slice.Spec.NodeName, slice.Spec.Driver, all)
}

// taintSomeDevices taints devices of a node, or takes the taints away.
func (w *world) taintSomeDevices(d rng) {
	name, ok := w.some(d, kindSlice)
	if !ok {
		return
	}
	slice := w.server.slice(name).DeepCopy()
	for i := range slice.Spec.Devices {
		device := &slice.Spec.Devices[i]
		if device.Taints = nil; d.chance(400) {
			effect := pick(d, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNone)
			device.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: effect}}
		}
	}
	w.server.update(kindSlice, slice)
}

// removeDevices ends a driver on a node, mostly for a while.
func (w *world) removeDevices(d rng) {
	name, ok := w.some(d, kindSlice)
	if !ok {
		return
	}
	slice := w.server.slice(name)
	w.server.remove(kindSlice, name)
	if d.chance(800) {
		w.later(d.span(0, 30*time.Second), "devices come back", func() {
			w.publish(*slice.Spec.NodeName, slice.Spec.Driver, slice.Spec.Devices)
		})
	}
}

// endController lets the claim controller be down for a while.
func (w *world) endController(d rng) {
	w.claimsFrom = w.queue.now.Add(d.span(time.Second, 60*time.Second))
}

// asked is what each pod of a job asks for by claims, or by extended resources.
type asked struct {
	// counts are devices by class, in the order in which they are asked for.
	counts []classCount
	// shared reports that two pods have one claim, alternatives that the first of two classes is given that there is, extended
	// that the pods name the resource and no claim, big that the claims select big devices of a class that has others, too.
	shared, alternatives, extended, big bool
}

type classCount struct {
	class string
	n     int
}

// drawAsked draws what pods ask for.
func drawAsked(d rng) *asked {
	a := &asked{counts: []classCount{{pick(d, classGPU, classGPU, classGPU, classBig), pick(d, 1, 1, 1, 2)}}}
	switch d.IntN(10) {
	case 0:
		a.shared = true
	case 1:
		a.alternatives = true
		a.counts = []classCount{{classBig, 1}, {classGPU, d.number(1, 2)}}
	case 2, 3:
		a.extended, a.counts[0].class = true, classGPU
		if d.chance(300) {
			a.counts = append(a.counts, classCount{classNIC, 1})
		}
	case 4:
		a.counts = append(a.counts, classCount{classNIC, 1})
	case 5:
		a.big, a.counts[0].class = true, classGPU
	}
	return a
}

// submitWithDevices submits gangs of small pods with devices.
func (w *world) submitWithDevices(d rng) {
	for range d.number(1, 3) {
		j := w.newJob(d, "d")
		j.gang, j.members, j.gated, j.selector, j.recreate = true, d.number(1, 4), false, nil, d.chance(700)
		j.min, j.requests = d.number(1, j.members), amounts(pick(d, 0, 0, 0, 1), 0)
		j.grace, j.runs = pick(d, 0, time.Second, 10*time.Second), pick(d, 0, d.span(5*time.Second, 20*time.Second), d.span(10*time.Second, 40*time.Second))
		j.asked = drawAsked(d)
		w.submit(d, j)
	}
}

func (w *world) submitOneWithDevices(d rng) {
	j := w.newJob(d, "e")
	j.requests, j.asked = amounts(pick(d, 0, 0, 1), 0), drawAsked(d)
	w.submit(d, j)
}

// claimEntry is the name of the entry of spec.resourceClaims.
const claimEntry = "devices"

// claim writes on a new pod what it asks for.
func (w *world) claim(j *job, pod *corev1.Pod) {
	switch {
	case j.asked == nil:
	case j.asked.extended:
		list := pod.Spec.Containers[0].Resources.Requests.DeepCopy()
		for _, one := range j.asked.counts {
			list[resourceOfClass(one.class)] = *resource.NewQuantity(int64(one.n), resource.DecimalSI)
		}
		pod.Spec.Containers[0].Resources.Requests = list
	case j.asked.shared:
		j.claimed++
		name := fmt.Sprintf("%s-shared-%d", j.name, (j.claimed-1)/2)
		w.server.create(kindClaim, newClaim(j, name))
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimEntry, ResourceClaimName: &name}}
	default:
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: claimEntry, ResourceClaimTemplateName: new(j.name)}}
	}
}

func resourceOfClass(class string) corev1.ResourceName {
	return map[string]corev1.ResourceName{classGPU: gpuResource, classBig: bigResource, classNIC: nicResource}[class]
}

// newClaim is what the claim of a pod of the job asks for.
func newClaim(j *job, name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: name}}
	requests := &claim.Spec.Devices.Requests
	if j.asked.alternatives {
		one := resourceapi.DeviceRequest{Name: "any"}
		for _, ask := range j.asked.counts {
			one.FirstAvailable = append(one.FirstAvailable, resourceapi.DeviceSubRequest{
				Name: ask.class, DeviceClassName: ask.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(ask.n),
			})
		}
		*requests = append(*requests, one)
		return claim
	}
	for _, ask := range j.asked.counts {
		*requests = append(*requests, resourceapi.DeviceRequest{Name: ask.class, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: ask.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(ask.n),
		}})
	}
	if j.asked.big {
		(*requests)[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: isBig}}}
	}
	return claim
}

// controlClaims is the claim controller and the garbage collector, when something has happened to a pod: they see it late, or
// when the controller is back.
func (w *world) controlClaims(before, pod *corev1.Pod, deleted bool) {
	if !w.config.Devices || len(pod.Spec.ResourceClaims) == 0 && !asksExtended(pod) {
		return
	}
	name, uid := keyOf(pod), pod.UID
	if before == nil {
		w.later(w.claimRandom.span(time.Millisecond, pick(w.claimRandom, 20*time.Millisecond, time.Second)), "the claim controller sees a pod", func() {
			w.controlWhenUp(func() { w.makeClaim(name, uid) })
		})
	}
	if deleted {
		w.later(w.claimRandom.span(0, time.Second), "claims of a pod that is gone are collected", func() { w.collectClaims(uid) })
	}
	if deleted || finished(pod) {
		w.lookAtClaims()
	}
}

// lookAtClaims lets the controller see soon that a pod is done.
func (w *world) lookAtClaims() {
	late := w.claimRandom.span(time.Millisecond, pick(w.claimRandom, 20*time.Millisecond, time.Second, 8*time.Second))
	w.later(late, "the claim controller looks at claims", func() { w.controlWhenUp(w.releaseClaims) })
}

// claimChanged lets the controller see a claim that is reserved for a pod which is done, or was made for one.
func (w *world) claimChanged(claim *resourceapi.ResourceClaim, deleted bool) {
	done := func(user resourceapi.ResourceClaimConsumerReference) bool { return w.isDone(user.UID) }
	owner := metav1.GetControllerOfNoCopy(claim)
	if !deleted && (slices.ContainsFunc(claim.Status.ReservedFor, done) || owner != nil && w.isDone(owner.UID)) {
		w.lookAtClaims()
	}
}

// collectSlices ends the slices whose node is gone.
func (w *world) collectSlices() {
	for _, name := range w.server.names(kindSlice) {
		if w.server.node(*w.server.slice(name).Spec.NodeName) == nil {
			w.server.remove(kindSlice, name)
		}
	}
}

// controlWhenUp does something now, or when the controller is no longer down.
func (w *world) controlWhenUp(do func()) {
	if wait := w.claimsFrom.Sub(w.queue.now); wait > 0 && !w.calm {
		w.later(wait, "the claim controller is back", func() { w.controlWhenUp(do) })
		return
	}
	do()
}

func asksExtended(pod *corev1.Pod) bool {
	for _, name := range []corev1.ResourceName{gpuResource, bigResource, nicResource} {
		if _, asks := pod.Spec.Containers[0].Resources.Requests[name]; asks {
			return true
		}
	}
	return false
}

// makeClaim makes the claim of a pod from its template, and then says so in its status.
func (w *world) makeClaim(name string, uid types.UID) {
	pod := w.server.pod(name)
	if pod == nil || pod.UID != uid || finished(pod) || pod.DeletionTimestamp != nil || len(pod.Status.ResourceClaimStatuses) > 0 {
		return
	}
	j := w.jobOf(pod)
	if j == nil || j.asked == nil || len(pod.Spec.ResourceClaims) == 0 || pod.Spec.ResourceClaims[0].ResourceClaimTemplateName == nil {
		return
	}
	claim := newClaim(j, pod.Name+"-"+claimEntry)
	claim.OwnerReferences = []metav1.OwnerReference{ownerOf(pod)}
	if !w.server.create(kindClaim, claim) {
		return // the one of an earlier pod of this name is still there
	}
	w.later(w.claimRandom.span(0, 50*time.Millisecond), "the claim controller names a claim", func() {
		w.server.changePod(name, uid, func(pod *corev1.Pod) {
			pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: claimEntry, ResourceClaimName: &claim.Name}}
		})
	})
}

func ownerOf(pod *corev1.Pod) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}
}

// isDone reports whether a claim needs no longer to be reserved for a pod.
func (w *world) isDone(uid types.UID) bool {
	for _, pod := range w.server.pods() {
		if pod.UID == uid {
			return finished(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
		}
	}
	return true
}

// releaseClaims takes pods that are done out of claims, and the devices from those that are reserved for none then. What is left
// of a claim whose pod is done is deleted later.
func (w *world) releaseClaims() {
	for _, name := range w.server.names(kindClaim) {
		claim := w.server.claim(name).DeepCopy()
		owner := metav1.GetControllerOfNoCopy(claim)
		before := len(claim.Status.ReservedFor)
		claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
			func(user resourceapi.ResourceClaimConsumerReference) bool { return w.isDone(user.UID) })
		if len(claim.Status.ReservedFor) < before {
			if len(claim.Status.ReservedFor) == 0 {
				claim.Status.Allocation = nil
			}
			w.server.update(kindClaim, claim)
		}
		if owner == nil || !w.isDone(owner.UID) {
			continue
		}
		if uid := claim.UID; len(claim.Status.ReservedFor) == 0 {
			w.later(w.claimRandom.span(0, time.Second), "the claim of a pod that is done goes", func() {
				if now := w.server.claim(name); now != nil && now.UID == uid {
					w.server.remove(kindClaim, name)
				}
			})
		}
	}
}

// collectClaims is the garbage collector, when a pod is gone: its claims are being deleted, and stay while they have devices.
func (w *world) collectClaims(uid types.UID) {
	for _, name := range w.server.names(kindClaim) {
		claim := w.server.claim(name)
		if owner := metav1.GetControllerOfNoCopy(claim); owner == nil || owner.UID != uid {
			continue
		}
		if claim.Status.Allocation == nil {
			w.server.remove(kindClaim, name)
		} else if claim.DeletionTimestamp == nil {
			claim = claim.DeepCopy()
			claim.DeletionTimestamp = new(w.server.now())
			w.server.update(kindClaim, claim)
		}
	}
}

// limitDevices gives a queue numbers of devices, too.
func (w *world) limitDevices(name string, spec *v1alpha1.QueueSpec) {
	d := newRandom(w.config.Seed, fmt.Sprint("devices of queue ", name, w.server.version))
	if len(spec.Guarantee) > 0 && d.chance(600) {
		spec.Guarantee[gpuResource] = *resource.NewQuantity(int64(d.number(0, 3)), resource.DecimalSI)
	}
	if len(spec.Limit) > 0 && d.chance(700) {
		least := spec.Guarantee[gpuResource]
		spec.Limit[gpuResource] = *resource.NewQuantity(least.Value()+int64(d.number(0, 3)), resource.DecimalSI)
		if d.chance(300) {
			spec.Limit[nicResource] = *resource.NewQuantity(int64(d.number(0, 1)), resource.DecimalSI)
		}
	}
}
