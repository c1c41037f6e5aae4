package kube

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/ptr"
)

// allocations are the allocations of devices, by pool, and the claims that were made for extended resources, by pod. An
// allocation is one of the cache of claims or the one of a pod that is being placed.
//
// Invariant: what is allocated to a pod that is being placed stays here while it is written: the cache tells of a claim before it
// returns from the call that changes it, and only then is the allocation removed as that of the pod.
type allocations struct {
	mu    *sync.Mutex
	pools map[poolID]map[holder]*resourceapi.AllocationResult
	made  map[types.UID]map[types.NamespacedName]*resourceapi.ResourceClaim
}

// holder is what has devices: a claim that the cache has, or, by its UID, one of a pod that is being placed.
type holder struct {
	cached  types.NamespacedName
	pending types.UID
}

func newAllocations() allocations {
	return allocations{
		mu:    &sync.Mutex{},
		pools: map[poolID]map[holder]*resourceapi.AllocationResult{},
		made:  map[types.UID]map[types.NamespacedName]*resourceapi.ResourceClaim{},
	}
}

// handler returns what takes in the changes of the cache.
func (a allocations) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(now any) { a.change(nil, now) },
		UpdateFunc: a.change,
		DeleteFunc: func(before any) { a.change(before, nil) },
	}
}

func (a allocations) change(before, now any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if claim, ok := before.(*resourceapi.ResourceClaim); ok {
		name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		a.remove(holder{cached: name}, claim.Status.Allocation)
		for _, pod := range ownersOf(claim) {
			if delete(a.made[pod], name); len(a.made[pod]) == 0 {
				delete(a.made, pod)
			}
		}
	}
	if claim, ok := now.(*resourceapi.ResourceClaim); ok {
		name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		a.add(holder{cached: name}, claim.Status.Allocation)
		for _, pod := range ownersOf(claim) {
			if a.made[pod] == nil {
				a.made[pod] = map[types.NamespacedName]*resourceapi.ResourceClaim{}
			}
			a.made[pod][name] = claim
		}
	}
}

// ownersOf returns the owners of a claim that was made for extended resources: the pod that requests them.
func ownersOf(claim *resourceapi.ResourceClaim) (pods []types.UID) {
	if claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] != "true" {
		return nil
	}
	for _, owner := range claim.OwnerReferences {
		pods = append(pods, owner.UID)
	}
	return pods
}

// add and remove change what a holder has, nil is nothing. The caller holds the mutex.
func (a allocations) add(by holder, allocation *resourceapi.AllocationResult) {
	for _, pool := range poolsOf(allocation) {
		if a.pools[pool] == nil {
			a.pools[pool] = map[holder]*resourceapi.AllocationResult{}
		}
		a.pools[pool][by] = allocation
	}
}

func (a allocations) remove(by holder, allocation *resourceapi.AllocationResult) {
	for _, pool := range poolsOf(allocation) {
		if delete(a.pools[pool], by); len(a.pools[pool]) == 0 {
			delete(a.pools, pool)
		}
	}
}

func poolsOf(allocation *resourceapi.AllocationResult) (pools []poolID) {
	if allocation == nil {
		return nil
	}
	for i := range allocation.Devices.Results {
		device := &allocation.Devices.Results[i]
		if pool := (poolID{driver: device.Driver, pool: device.Pool}); !slices.Contains(pools, pool) {
			pools = append(pools, pool)
		}
	}
	return pools
}

// madeFor returns the claims that were made for the extended resources of the pod.
func (a allocations) madeFor(pod types.UID) (claims []*resourceapi.ResourceClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, claim := range a.made[pod] {
		claims = append(claims, claim)
	}
	return claims
}

// of returns what is allocated in the pools of the slices, as kube-scheduler's own tracker says it of all pools.
func (a allocations) of(shown []*resourceapi.ResourceSlice) *structured.AllocatedState {
	state := &structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	consumable := utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity)
	read := map[poolID]bool{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, slice := range shown {
		pool := poolID{driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name}
		if read[pool] {
			continue
		}
		read[pool] = true
		for _, allocation := range a.pools[pool] {
			for i := range allocation.Devices.Results {
				if device := &allocation.Devices.Results[i]; device.Driver == pool.driver && device.Pool == pool.pool {
					addDevice(state, device, consumable)
				}
			}
		}
	}
	return state
}

// addDevice adds a device as the allocator wants to know of it.
func addDevice(to *structured.AllocatedState, device *resourceapi.DeviceRequestAllocationResult, consumable bool) {
	id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
	switch {
	case ptr.Deref(device.AdminAccess, false): // takes nothing from others
	case device.ShareID == nil || !consumable:
		to.AllocatedDevices.Insert(id)
	default:
		to.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, device.ShareID))
		if device.ConsumedCapacity != nil {
			to.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
		}
	}
}
