package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
)

// oneNode is DynamicResources for a pod that has a node. It sees only what decides about devices there, so that a pod costs what
// its node has and not what the cluster has: kube-scheduler reads all devices and all allocations for each pod. The answer about
// the node is the same for each claim, since its allocator looks at nothing else for one node.
type oneNode struct {
	reservePlugin
	inventory *DeviceInventory
	shown     *nodeDRA
}

// PreFilter prepares the pod for the first of the nodes. Reservations.mu guards what is shown, under which alone it is called.
func (p oneNode) PreFilter(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	p.shown.pod, p.shown.slices = pod.UID, p.inventory.slicesFor(nodes[0].Node().Name)
	return p.reservePlugin.PreFilter(ctx, state, pod, nodes)
}

// nodeDRA is a manager of devices that knows only some slices, the allocations of devices of their pools, and the claim that was
// made for the extended resources of one pod. An allocation is looked up after the slices are known, so that no device is shown
// without the claim that has it.
type nodeDRA struct {
	recordingDRA
	pod    types.UID
	slices []*resourceapi.ResourceSlice
}

// ResourceSlices returns the lister of the slices.
func (d *nodeDRA) ResourceSlices() fwk.ResourceSliceLister { return d }

// ListWithDeviceTaintRules returns the slices.
func (d *nodeDRA) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return d.slices, nil
}

// ResourceClaims returns the tracker of claims.
func (d *nodeDRA) ResourceClaims() fwk.ResourceClaimTracker { return nodeClaims{d.claims, d} }

// nodeClaims is the tracker of claims of a nodeDRA.
type nodeClaims struct {
	*recordingClaimTracker
	of *nodeDRA
}

// List returns the claims that were made for the extended resources of the pod; the plugin looks for no others in the list.
func (c nodeClaims) List() ([]*resourceapi.ResourceClaim, error) {
	return c.allocated.madeFor(c.of.pod), nil
}

// ListAllAllocatedDevices returns the devices in pools of the slices that are allocated.
func (c nodeClaims) ListAllAllocatedDevices() (sets.Set[structured.DeviceID], error) {
	return c.allocated.of(c.of.slices).AllocatedDevices, nil
}

// GatherAllocatedState returns what is allocated in pools of the slices.
func (c nodeClaims) GatherAllocatedState() (*structured.AllocatedState, error) {
	return c.allocated.of(c.of.slices), nil
}
