package inprocess

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// This file makes devices of ResourceSlices of what nodes report, and claims of what pods request of it.

// driver is the driver of all devices.
const driver = "bench.example.com"

// Devices are the objects that say which devices there are, and who asks for them.
type Devices struct {
	Classes []*resourceapi.DeviceClass
	Slices  []*resourceapi.ResourceSlice
	Claims  []*resourceapi.ResourceClaim
}

// objects are all of them.
func (d *Devices) objects() (all []runtime.Object) {
	for _, class := range d.Classes {
		all = append(all, class)
	}
	for _, slice := range d.Slices {
		all = append(all, slice)
	}
	for _, claim := range d.Claims {
		all = append(all, claim)
	}
	return all
}

// byClaims moves the devices of nodes into slices, and makes a claim of each request for them. The claim of a pod on a node is
// allocated: it has the next devices of the node.
func (o *Objects) byClaims() {
	for _, class := range deviceClasses() {
		o.Devices.Classes = append(o.Devices.Classes, class)
	}
	for _, node := range o.Nodes {
		o.Devices.Slices = append(o.Devices.Slices, slice(node))
	}
	next := map[string]int{}
	for _, batch := range []*Batch{&o.Existing, &o.Pending} {
		for _, pod := range batch.Pods {
			for name, class := range deviceClasses() {
				requests := pod.Spec.Containers[0].Resources.Requests
				amount, asks := requests[name]
				if !asks {
					continue
				}
				delete(requests, name)
				o.Devices.Claims = append(o.Devices.Claims, claim(pod, class.Name, amount, next))
			}
		}
	}
}

// deviceClasses are the classes by the extended resource that each one provides.
func deviceClasses() map[corev1.ResourceName]*resourceapi.DeviceClass {
	classes := map[corev1.ResourceName]*resourceapi.DeviceClass{}
	for class, provides := range map[string]string{"gpu": gpu, "rare": rare} {
		classes[corev1.ResourceName(provides)] = &resourceapi.DeviceClass{
			ObjectMeta: metav1.ObjectMeta{Name: class, UID: types.UID("class-" + class), ResourceVersion: "1"},
			Spec: resourceapi.DeviceClassSpec{
				ExtendedResourceName: &provides,
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
					Expression: fmt.Sprintf(`device.attributes["%s"].kind == "%s"`, driver, class),
				}}},
			},
		}
	}
	return classes
}

// slice has the devices of a node, which does not report them any longer.
func slice(node *corev1.Node) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: "slice-" + node.UID, ResourceVersion: "1"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: node.Name, Generation: 1, ResourceSliceCount: 1}, NodeName: &node.Name,
		},
	}
	for _, name := range []corev1.ResourceName{gpu, rare} {
		class, amount := deviceClasses()[name].Name, node.Status.Allocatable[name]
		for i := range amount.Value() {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name:       fmt.Sprintf("%s-%d", class, i),
				Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"kind": {StringValue: &class}},
			})
		}
		delete(node.Status.Allocatable, name)
		delete(node.Status.Capacity, name)
	}
	return slice
}

// claim is what the pod asks for; next is the first device of each node that no pod has.
func claim(pod *corev1.Pod, class string, amount resource.Quantity, next map[string]int) *resourceapi.ResourceClaim {
	name := pod.Name + "-" + class
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: class, ResourceClaimName: &name})
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: name, UID: types.UID("claim-" + name), ResourceVersion: "1"},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: class, Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: amount.Value(),
			},
		}}}},
	}
	if pod.Spec.NodeName == "" {
		return claim
	}
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod.Name, UID: pod.UID}}
	for range amount.Value() {
		device := fmt.Sprintf("%s-%d", class, next[pod.Spec.NodeName])
		next[pod.Spec.NodeName]++
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Request: class, Driver: driver, Pool: pod.Spec.NodeName, Device: device})
	}
	return claim
}

// tellClaims tells the state of classes and claims.
func (w *world) tellClaims(devices Devices) {
	for _, class := range devices.Classes {
		w.state.Apply(&cluster.DeviceClassSeen{Class: class})
	}
	for _, claim := range devices.Claims {
		w.state.Apply(&cluster.ClaimSeen{Claim: claim})
	}
}
