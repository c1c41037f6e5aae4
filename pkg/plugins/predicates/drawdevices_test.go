package predicates_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

const devicesDriver = "gpu.example.com"

// wishDevices names a claim to devices: one that is allocated on some node, one that some nodes can serve, or one that none
// can.
func wishDevices(d random, p *corev1.Pod) {
	if !d.oneIn(6) {
		p.Namespace = "default"
	}
	name := pick(d, "here-0", "here-1", "one", "one", "two", "big", "fast", "fast-two", "tolerant", "either", "many", "classless", "in-use", "none")
	reference := corev1.PodResourceClaim{Name: "device", ResourceClaimName: &name}
	if d.oneIn(12) {
		template := "template"
		reference = corev1.PodResourceClaim{Name: "device", ResourceClaimTemplateName: &template}
		if d.oneIn(2) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &name}}
		}
	}
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{reference}
}

// classResource is an extended resource that some nodes report and the device class provides, otherResource one that another
// class provides, which comes and goes.
const (
	classResource corev1.ResourceName = "class.example.com/gpu"
	otherResource corev1.ResourceName = "class.example.com/other"
)

// wishExtended requests devices by extended resources, in a container or in an init container.
func wishExtended(d random, p *corev1.Pod) {
	asked := &p.Spec.Containers[0].Resources
	if d.oneIn(4) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("before-", len(p.Spec.InitContainers))})
		asked = &p.Spec.InitContainers[len(p.Spec.InitContainers)-1].Resources
	}
	if asked.Requests == nil {
		asked.Requests = corev1.ResourceList{}
	}
	for name, amount := range amounts(string(pick(d, classResource, classResource, otherResource,
		implicitResource("gpu"), implicitResource("other"))), pick(d, "1", "1", "2", "0")) {
		asked.Requests[name] = amount
	}
}

// implicitResource is the one that a class provides by its name.
func implicitResource(class string) corev1.ResourceName {
	return corev1.ResourceName(resourceapi.ResourceDeviceClassPrefix + class)
}

// otherClass is the class that is added and deleted; it is for the fast devices, or names no resource.
func (d random) otherClass() *resourceapi.DeviceClass {
	class := &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["` + devicesDriver + `"].fast`},
		}}},
	}
	if !d.oneIn(4) {
		name := string(otherResource)
		class.Spec.ExtendedResourceName = &name
	}
	return class
}

// devices draws classes, the devices of nodes, and claims to them in namespace default.
func (d random) devices() []runtime.Object {
	extended := string(classResource)
	objects := []runtime.Object{&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: &extended, Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: `device.driver == "` + devicesDriver + `"`},
		}}},
	}}
	for i := range maxNodes {
		if !d.oneIn(4) {
			objects = append(objects, d.slice(i))
		}
	}
	exactly := func(name, class string, count int64, fast bool) *resourceapi.ResourceClaim {
		return deviceClaim(name, resourceapi.DeviceRequest{Name: "r", Exactly: exact(class, count, fast)})
	}
	for i := range 2 {
		here := exactly(fmt.Sprint("here-", i), "gpu", 1, false)
		node := d.nodeName()
		here.Status.Allocation = &resourceapi.AllocationResult{
			NodeSelector: d.onlyOn(node, d.nodeName()).Required,
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
				Request: "r", Driver: devicesDriver, Pool: node, Device: fmt.Sprint("d", i),
			}}},
		}
		objects = append(objects, here)
	}
	inUse := exactly("in-use", "gpu", 1, false)
	inUse.Status.Allocation = &resourceapi.AllocationResult{}
	for i := range resourceapi.ResourceClaimReservedForMaxSize / 2 { // neither kube-scheduler nor we count the pods
		inUse.Status.ReservedFor = append(inUse.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
			Resource: "pods", Name: fmt.Sprint("user-", i), UID: types.UID(fmt.Sprint("user-", i)),
		})
	}
	either := deviceClaim("either", resourceapi.DeviceRequest{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "fast", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 3},
		{Name: "slow", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}})
	tolerant := exactly("tolerant", "gpu", 1, false)
	tolerant.Spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{
		{Key: "broken", Operator: resourceapi.DeviceTolerationOpExists},
	}
	return append(objects, inUse, either, tolerant, exactly("one", "gpu", 1, false), exactly("two", "gpu", 2, false),
		exactly("big", "gpu", 3, false), exactly("fast", "gpu", 1, true), exactly("fast-two", "gpu", 2, true), exactly("many", "gpu", 9, false),
		exactly("classless", "nonsense", 1, false))
}

func deviceClaim(name string, request resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("claim " + name)},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{request}}},
	}
}

func exact(class string, count int64, fast bool) *resourceapi.ExactDeviceRequest {
	request := &resourceapi.ExactDeviceRequest{
		DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}
	if fast {
		request.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: `device.attributes["` + devicesDriver + `"].fast`,
		}}}
	}
	return request
}

func (d random) slice(i int) *resourceapi.ResourceSlice {
	name := nodeName(i)
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice-" + name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: devicesDriver, NodeName: &name, Pool: resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
		},
	}
	for j := range 1 + d.IntN(4) {
		fast := d.oneIn(3)
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprint("d", j),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"fast": {BoolValue: &fast}},
		})
	}
	return slice
}
