package kube

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// deviceClasses knows which extended resources device classes provide, as DynamicResources does, and tells when that has
// changed.
type deviceClasses struct {
	fwk.DeviceClassResolver
	notifyingCache
}

// watch lets the resolver, which sees nothing by itself, see the device classes.
func (d *deviceClasses) watch(resolver fwk.DeviceClassResolver, factory informers.SharedInformerFactory) error {
	handler, ok := resolver.(cache.ResourceEventHandler)
	if !ok {
		return errors.New("kube-scheduler does not want to know of device classes")
	}
	d.DeviceClassResolver = resolver
	registration, err := factory.Resource().V1().DeviceClasses().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			handler.OnAdd(object, initial)
			d.notify()
		},
		UpdateFunc: func(before, after any) {
			handler.OnUpdate(before, after)
			d.notify()
		},
		DeleteFunc: func(object any) {
			handler.OnDelete(object)
			d.notify()
		},
	})
	if err != nil {
		return err
	}
	d.synced = registration.HasSynced
	return nil
}

// extendedResources returns the resources that a pod asks for of which a device class could provide devices, sorted.
func extendedResources(pod *corev1.Pod) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name, amount := range resource.PodRequests(pod, resource.PodResourcesOptions{ExcludeOverhead: true}) {
		if !amount.IsZero() && util.IsDRAExtendedResourceName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// byClass returns those of the resources that the node does not report, so that only a device class can provide them.
func byClass(pod *corev1.Pod, node *corev1.Node) []corev1.ResourceName {
	return slices.DeleteFunc(extendedResources(pod), func(name corev1.ResourceName) bool {
		reported := node.Status.Allocatable[name]
		return reported.Value() != 0
	})
}

// ownClaim reports whether the claim is the one that kube-scheduler's plugin itself makes for the extended resources of the
// pod.
func ownClaim(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && claim.Namespace == pod.Namespace &&
		slices.ContainsFunc(claim.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == pod.UID })
}

// recordingDRA is kube-scheduler's manager of devices with a claim tracker that notes what is reserved.
type recordingDRA struct {
	fwk.SharedDRAManager
	claims *recordingClaimTracker
}

// ResourceClaims returns the tracker.
func (t recordingDRA) ResourceClaims() fwk.ResourceClaimTracker { return t.claims }

// recordingClaimTracker is a claim tracker that notes what is reserved: the claim for extended resources is made by the
// plugin and known to no other component. Reservations.mu guards the note, under which alone something is reserved. It also knows
// the devices that are allocated by their pool.
type recordingClaimTracker struct {
	fwk.ResourceClaimTracker
	signalled []types.UID
	allocated allocations
}

func newRecordingClaimTracker(tracker fwk.ResourceClaimTracker, claims *assumecache.AssumeCache) *recordingClaimTracker {
	t := &recordingClaimTracker{ResourceClaimTracker: tracker, allocated: newAllocations()}
	claims.AddEventHandler(t.allocated.handler())
	return t
}

// SignalClaimPendingAllocation notes the claim.
func (t *recordingClaimTracker) SignalClaimPendingAllocation(claim types.UID, allocated *resourceapi.ResourceClaim) error {
	t.signalled = append(t.signalled, claim)
	t.allocated.mu.Lock()
	defer t.allocated.mu.Unlock()
	if err := t.ResourceClaimTracker.SignalClaimPendingAllocation(claim, allocated); err != nil {
		return err
	}
	t.allocated.add(holder{pending: claim}, t.GetPendingAllocation(claim))
	return nil
}

// MaybeRemoveClaimPendingAllocation reports whether the devices of the claim are no longer those of a pod that is being placed.
func (t *recordingClaimTracker) MaybeRemoveClaimPendingAllocation(claim types.UID, force bool) bool {
	t.allocated.mu.Lock()
	defer t.allocated.mu.Unlock()
	before := t.GetPendingAllocation(claim)
	removed := t.ResourceClaimTracker.MaybeRemoveClaimPendingAllocation(claim, force)
	if removed {
		t.allocated.remove(holder{pending: claim}, before)
	}
	return removed
}

// AssumedClaimRestore does nothing. What is assumed of a claim is what the API server has answered, and the watch may not have
// told it yet. With the version before, a claim that was deallocated would look allocated again, and its pod be bound without a
// device. A newer version from the watch replaces what is assumed in any case.
func (t *recordingClaimTracker) AssumedClaimRestore(string, string) {}
