package nodeorder_test

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The claims: to volumes that are created where the pod goes, to volumes on nodes, and to devices.
var (
	volumeClaims = []string{"late-0", "late-1", "local-0", "local-1", "plain-0"}
	deviceClaims = []string{"either-0", "either-1", "both", "one"}
)

const device = "gpu.example.com"

// randomClaims draws the storage and devices of the nodes n0, n1, … of zones z0 to z2, and claims to them.
func randomClaims(r *rand.Rand) []runtime.Object {
	late, tracked := storagev1.VolumeBindingWaitForFirstConsumer, true
	class := func(name, provisioner string) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &late}
	}
	objects := []runtime.Object{
		class("late", "csi.example.com"), class("local", "kubernetes.io/no-provisioner"), class("plain", "plain.example.com"),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "csi.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &tracked}},
		&resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
	}
	for i := range 3 {
		objects = append(objects, capacity(fmt.Sprint("z", i), 5+r.Int64N(100)))
	}
	for i := range 16 {
		node := fmt.Sprint("n", i)
		for j := range r.IntN(4) {
			objects = append(objects, localVolume(fmt.Sprint("local-", i, "-", j), node, 5+r.Int64N(20)))
		}
		if devices := r.IntN(5); devices > 0 {
			objects = append(objects, slice(node, devices))
		}
	}
	for _, name := range volumeClaims {
		objects = append(objects, volumeClaim(name, name[:len(name)-2], 1+r.Int64N(10)))
	}
	return append(objects,
		deviceClaim("either-0", firstOf(1+r.Int64N(3), 1)), deviceClaim("either-1", firstOf(3, 2, 1)),
		deviceClaim("both", firstOf(2, 1), exactly(1)), deviceClaim("one", exactly(1)))
}

// claim gives a pod claims of its own and, now and then, a shared one.
func claim(r *rand.Rand, pod *corev1.Pod) {
	for i, name := range volumeClaims {
		if r.IntN(4) == 0 {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	for _, name := range deviceClaims {
		if r.IntN(4) == 0 {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	}
}

func capacity(zone string, gib int64) *storagev1.CSIStorageCapacity {
	amount := quantity(gib, 1<<30)
	return &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Name: "in-" + zone, Namespace: "default"}, StorageClassName: "late", Capacity: &amount,
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelTopologyZone: zone}},
	}
}

func localVolume(name, node string, gib int64) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "local", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: quantity(gib, 1<<30)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
				}}}},
			}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
}

func volumeClaim(name, class string, gib int64) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(gib<<30, resource.BinarySI)},
			},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

func slice(node string, devices int) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: resourceapi.ResourceSliceSpec{
		Driver: device, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: fmt.Sprint("d", i)})
	}
	return slice
}

func deviceClaim(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for i, request := range requests {
		request.Name = fmt.Sprint("r", i)
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

func exactly(count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
	}}
}

// firstOf requests the first of these numbers of devices that is available.
func firstOf(counts ...int64) resourceapi.DeviceRequest {
	var request resourceapi.DeviceRequest
	for i, count := range counts {
		request.FirstAvailable = append(request.FirstAvailable, resourceapi.DeviceSubRequest{
			Name: fmt.Sprint("s", i), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
		})
	}
	return request
}
