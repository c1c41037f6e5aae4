package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// podClaims are the claims of one pod: the names of its volume claims and of its device claims, in its namespace.
type podClaims struct {
	namespace        string
	volumes, devices []string
	// byClass are extended resources that the node does not report: a claim to devices for them is made for the pod alone.
	byClass []corev1.ResourceName
}

func (c podClaims) none() bool { return len(c.volumes)+len(c.devices)+len(c.byClass) == 0 }

func (c podClaims) volumeKeys() []string { return keysOf("volume", c.namespace, c.volumes) }

// keys name the claims, sorted: what two pods may have in common.
func (c podClaims) keys() []string {
	return append(keysOf("device", c.namespace, c.devices), c.volumeKeys()...)
}

func keysOf(kind, namespace string, names []string) []string {
	keys := make([]string, 0, len(names))
	for _, name := range names {
		keys = append(keys, kind+" "+namespace+"/"+name)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// claimsOf reads a pod's claims. What is not made from its template yet is left out; the plugins have their own word on it.
func (r *Reservations) claimsOf(pod *corev1.Pod) podClaims {
	claims := podClaims{namespace: pod.Namespace}
	for i := range pod.Spec.Volumes {
		switch volume := &pod.Spec.Volumes[i]; {
		case volume.PersistentVolumeClaim != nil:
			claims.volumes = append(claims.volumes, volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			claims.volumes = append(claims.volumes, ephemeral.VolumeClaimName(pod, volume))
		}
	}
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil {
			claims.devices = append(claims.devices, *name)
		}
	}
	return claims
}

// reserve asks the plugins about the pod and the node and lets them reserved what it takes, or nothing.
func (r *Reservations) reserve(ctx context.Context, h *reservation, group fwk.PodGroupCycleState) *fwk.Status {
	h.state = framework.NewCycleState()
	h.state.SetPodGroupSchedulingCycle(group)
	h.pending, h.reserved = nil, false
	for _, name := range h.claims.devices {
		claim, err := r.claims.Get(h.claims.namespace, name)
		if err != nil {
			continue // the plugin says so
		}
		if claim.Status.Allocation == nil {
			h.pending = append(h.pending, claim.UID)
		}
		h.reserved = h.reserved || resourceclaim.IsReservedForPod(h.pod, claim, false)
		if r.reservedForFull(h, claim) {
			return fwk.NewStatus(fwk.Pending, "resourceclaim in use")
		}
	}
	for _, plugin := range r.reservePlugins() {
		if status := h.ask(ctx, plugin); !status.IsSuccess() && !status.IsSkip() {
			return status
		}
	}
	if status := r.volumes.Reserve(r.ctx, h.state, h.pod, h.node.Name); !status.IsSuccess() {
		r.rereserve(h)
		return status
	}
	if status := r.setDevices(h); !status.IsSuccess() {
		r.unreserve(h)
		r.rereserve(h)
		return status
	}
	return nil
}

// ask returns whether a plugin lets the pod on the node, as far as it has anything to say of the pod.
func (h *reservation) ask(ctx context.Context, plugin reservePlugin) *fwk.Status {
	node := framework.NewNodeInfo()
	node.SetNode(h.node)
	_, status := plugin.PreFilter(ctx, h.state, h.pod, []fwk.NodeInfo{node})
	if status.IsSuccess() {
		status = plugin.Filter(ctx, h.state, h.pod, node)
	}
	return status
}

// reservedForFull reports whether the claim is reserved, or will be, for as many others as the API server allows.
// kube-scheduler finds that out when it binds; a gang would have begun to start by then.
func (r *Reservations) reservedForFull(h *reservation, claim *resourceapi.ResourceClaim) bool {
	others := r.sharing(h, keysOf("device", claim.Namespace, []string{claim.Name}))
	users := len(claim.Status.ReservedFor)
	if users+len(others) < resourceapi.ResourceClaimReservedForMaxSize || resourceclaim.IsReservedForPod(h.pod, claim, false) {
		return false
	}
	for _, other := range others {
		if !resourceclaim.IsReservedForPod(other.pod, claim, false) {
			users++
		}
	}
	return users >= resourceapi.ResourceClaimReservedForMaxSize
}

// setDevices lets the plugin set devices aside. A pod must never be bound without those for its extended resources: what the
// snapshot says of device classes may be out of date, and the plugin has nothing against a node when no class is left.
func (r *Reservations) setDevices(h *reservation) *fwk.Status {
	r.claims.signalled = nil
	if status := r.devices.Reserve(r.ctx, h.state, h.pod, h.node.Name); !status.IsSuccess() {
		return status
	}
	own := false
	for _, claim := range r.claims.signalled {
		if !slices.Contains(h.pending, claim) {
			own, h.pending = true, append(h.pending, claim)
		}
	}
	for _, name := range h.claims.byClass {
		if !own || r.classes.GetDeviceClass(name) == nil {
			return fwk.NewStatus(fwk.Pending, "lack "+string(name)+", which no DeviceClass provides")
		}
	}
	return nil
}

// writes reports whether anything must be written to the API server before the pod is bound.
func (r *Reservations) writes(h *reservation) bool {
	for _, plugin := range r.reservePlugins() {
		if _, status := plugin.PreBindPreFlight(r.ctx, h.state, h.pod, h.node.Name); !status.IsSkip() {
			return true
		}
	}
	return false
}

// unreserve frees what is reserved, in reverse order, and writes nothing: the plugin itself would also withdraw from a claim
// that the API server has reserved for the pod since an earlier attempt, which a session must not do.
func (r *Reservations) unreserve(h *reservation) {
	switch {
	case h.prepared: // nothing is in flight, or it belongs to another pod by now
	case h.reserved, h.preparing:
		for _, claim := range h.pending {
			r.claims.MaybeRemoveClaimPendingAllocation(claim, false)
		}
	default:
		r.devices.Unreserve(r.ctx, h.state, h.pod, h.node.Name)
	}
	r.volumes.Unreserve(r.ctx, h.state, h.pod, h.node.Name)
}

// rereserve sets volumes aside again for those that share a claim with the pod: the plugin took them back for all of them.
func (r *Reservations) rereserve(h *reservation) {
	for _, other := range r.sharing(h, h.claims.volumeKeys()) {
		if other.preparing || other.claimsLost != "" {
			continue
		}
		if err := r.setVolumes(other); err != nil {
			other.claimsLost = "the volume that was set aside is not there any more: " + err.Error()
		}
	}
}

func (r *Reservations) setVolumes(h *reservation) error {
	status := h.ask(r.ctx, r.volumes)
	if status.IsSuccess() {
		status = r.volumes.Reserve(r.ctx, h.state, h.pod, h.node.Name)
	}
	return status.AsError()
}

// sharing returns the other reservations with one of the claims, oldest first.
func (r *Reservations) sharing(h *reservation, keys []string) []*reservation {
	var all []*reservation
	for _, key := range keys {
		for _, other := range r.users[key] {
			if other != h {
				all = append(all, other)
			}
		}
	}
	slices.SortFunc(all, func(a, b *reservation) int { return cmp.Compare(a.serial, b.serial) })
	return slices.Compact(all)
}

// deallocate withdraws the pod from the device claims that are reserved for it, and releases the devices that this
// reservation was to be given, unless other pods use them, too.
func (r *Reservations) deallocate(ctx context.Context, h *reservation) error {
	var failed []error
	for _, name := range h.claims.devices {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.removeFromReservedFor(ctx, h, name) })
		if err != nil {
			failed = append(failed, fmt.Errorf("resource claim %s/%s: %w", h.claims.namespace, name, err))
		}
	}
	return errors.Join(failed...)
}

// ownClaims returns the claims that were made for the extended resources of the pod, as far as is known by now.
func (r *Reservations) ownClaims(h *reservation) []*resourceapi.ResourceClaim {
	if len(h.claims.byClass) == 0 {
		return nil
	}
	return slices.DeleteFunc(r.claims.allocated.madeFor(h.pod.UID), func(claim *resourceapi.ResourceClaim) bool {
		return !ownClaim(claim, h.pod)
	})
}

// deleteOwnClaims deletes the claims that were made for the extended resources of the pod; their devices are free immediately.
func (r *Reservations) deleteOwnClaims(ctx context.Context, h *reservation) error {
	var failed []error
	for _, claim := range r.ownClaims(h) {
		h.pending = append(h.pending, claim.UID)
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.removeFromReservedFor(ctx, h, claim.Name) })
		if err == nil {
			err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.remove(ctx, claim) })
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("resource claim %s/%s: %w", claim.Namespace, claim.Name, err))
		}
	}
	return errors.Join(failed...)
}

// remove deletes a claim that no pod uses, with the finalizer that keeps it while it is allocated.
func (r *Reservations) remove(ctx context.Context, known *resourceapi.ResourceClaim) error {
	client := r.client.ResourceV1().ResourceClaims(known.Namespace)
	claim, err := client.Get(ctx, known.Name, metav1.GetOptions{})
	if err == nil && claim.UID == known.UID && slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == resourceapi.Finalizer })
		_, err = client.Update(ctx, claim, metav1.UpdateOptions{})
	}
	if err == nil {
		err = client.Delete(ctx, known.Name, *metav1.NewPreconditionDeleteOptions(string(known.UID)))
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (r *Reservations) removeFromReservedFor(ctx context.Context, h *reservation, name string) error {
	client := r.client.ResourceV1().ResourceClaims(h.claims.namespace)
	claim, err := client.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	before := len(claim.Status.ReservedFor)
	claim.Status.ReservedFor = slices.DeleteFunc(claim.Status.ReservedFor,
		func(consumer resourceapi.ResourceClaimConsumerReference) bool { return consumer.UID == h.pod.UID })
	if len(claim.Status.ReservedFor) == before {
		return nil // never written
	}
	if len(claim.Status.ReservedFor) == 0 && slices.Contains(h.pending, claim.UID) {
		claim.Status.Allocation, claim.Status.Devices = nil, nil
	}
	claim, err = client.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	// So that the devices are free, and seen to be free, without waiting for the watch. It fails when the watch was faster.
	_ = r.claims.AssumeClaimAfterAPICall(claim)
	return nil
}
