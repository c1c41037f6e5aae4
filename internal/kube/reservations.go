package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Reservations are the volumes and devices reserved for pods that have a node and are not bound yet: what kube-scheduler
// does in Reserve, PreBind and Unreserve. They live beside the session, since they outlast it: Reserve and Unreserve belong
// to a session that tries placements; once it has decided, Prepare tells the API server, and either Confirm or Release ends
// the reservation.
//
//	Reserve ──► reserved ──► Prepare ──► prepared ──► Confirm: bound, the claims are the pod's
//	               │             │           │
//	           Unreserve      Release     Release: released
//
// A claim that several pods share is reserved for all of them, and prepared by one after another: the later ones find it
// as the first has left it. Safe for concurrent use, with one condition per pod: no two calls for it overlap, except
// Abandon.
//
// Invariant: a pod has at most one reservation, and none when nothing has to be written for it before it is bound.
type Reservations struct {
	ctx              context.Context
	volumes, devices reservePlugin
	claims           *recordingClaimTracker
	classes          fwk.DeviceClassResolver
	client           kubernetes.Interface
	keys             keyLocks

	// mu guards what follows, and the reservations, except their state while they are being prepared.
	mu     sync.Mutex
	held   map[types.UID]*reservation
	serial uint64
	// users are the reservations by the keys of their claims, oldest first.
	users map[string][]*reservation
}

// reservePlugin is one of kube-scheduler's plugins that set something aside.
type reservePlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ReservePlugin
	fwk.PreBindPlugin
}

// reservation is what is reserved for one pod.
type reservation struct {
	// pod names the node, as plugins want it once there is one.
	pod  *corev1.Pod
	node *corev1.Node
	// state is what the plugins remember.
	state  *framework.CycleState
	claims podClaims
	keys   []string
	// pending are the device claims that were not allocated when the node was chosen; reserved reports that the API server has
	// one reserved for the pod since an earlier attempt.
	pending  []types.UID
	reserved bool
	serial   uint64
	// preparing reports that Prepare was called, cancel ends it; prepared that it succeeded, and nothing is in flight any more.
	preparing bool
	prepared  bool
	cancel    context.CancelFunc
	abandoned bool
	// stale reports that another pod that shares a claim has prepared it since, so that state is out of date. lost says why what
	// was reserved is not any more, empty when it still is.
	stale      bool
	claimsLost string
}

// newReservations returns the reservations of two plugins, of which the one for devices reads what it is shown of an inventory.
func newReservations(
	ctx context.Context, volumes, devices fwk.Plugin, shown *nodeDRA, inventory *DeviceInventory, client kubernetes.Interface,
) (*Reservations, error) {
	r := &Reservations{ctx: ctx, claims: shown.claims, classes: shown.DeviceClassResolver(), client: client,
		held: map[types.UID]*reservation{}, users: map[string][]*reservation{},
	}
	for into, plugin := range map[*reservePlugin]fwk.Plugin{&r.volumes: volumes, &r.devices: devices} {
		known, ok := plugin.(reservePlugin)
		if !ok {
			return nil, fmt.Errorf("kube-scheduler plugin %s sets nothing aside", plugin.Name())
		}
		*into = known
	}
	r.devices = oneNode{r.devices, inventory, shown}
	return r, nil
}

func (r *Reservations) reservePlugins() []reservePlugin { return []reservePlugin{r.volumes, r.devices} }

// Reserve reserves what the pod needs on the node, after asking once more whether that is possible. prepare reports that
// Prepare must be called before the pod is bound. When the status is no success, nothing was reserved; its code is Pending where
// the cause is the pod, its claim or its class, and not the devices of the node. group is what the members of one job have in
// common in this session, see Plugins.NewGroup; nil for a job of one. The context may end the search for devices. The session's
// goroutine calls it.
func (r *Reservations) Reserve(
	ctx context.Context, pod *corev1.Pod, node *corev1.Node, group fwk.PodGroupCycleState,
) (prepare bool, status *fwk.Status) {
	claims := r.claimsOf(pod)
	claims.byClass = byClass(pod, node)
	if claims.none() {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[pod.UID] != nil {
		return false, fwk.NewStatus(fwk.Pending, "what was set aside for the pod before is still being given back")
	}
	placed := *pod
	placed.Spec.NodeName = node.Name
	h := &reservation{pod: &placed, node: node, claims: claims, keys: claims.keys()}
	if status := r.reserve(ctx, h, group); !status.IsSuccess() {
		return false, status
	}
	if !r.writes(h) {
		return false, nil
	}
	r.keep(h)
	return true, nil
}

func (r *Reservations) keep(h *reservation) {
	r.serial++
	h.serial = r.serial
	r.held[h.pod.UID] = h
	for _, key := range h.keys {
		r.users[key] = append(r.users[key], h)
	}
}

func (r *Reservations) drop(h *reservation) {
	delete(r.held, h.pod.UID)
	for _, key := range h.keys {
		r.users[key] = slices.DeleteFunc(r.users[key], func(other *reservation) bool { return other == h })
		if len(r.users[key]) == 0 {
			delete(r.users, key)
		}
	}
}

// Unreserve takes back, exactly, what Reserve reserved in this session; it writes nothing. A pod without a reservation is
// no error. The session's goroutine calls it.
func (r *Reservations) Unreserve(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[pod]
	if h == nil {
		return
	}
	r.drop(h)
	r.unreserve(h)
	r.rereserve(h)
}

// UnreserveAll takes back what Reserve has reserved for any pod, the latest first; it writes nothing. The session's goroutine
// calls it.
func (r *Reservations) UnreserveAll() {
	r.mu.Lock()
	held := slices.SortedFunc(maps.Values(r.held), func(a, b *reservation) int { return cmp.Compare(b.serial, a.serial) })
	r.mu.Unlock()
	for _, h := range held {
		r.Unreserve(h.pod.UID)
	}
}

// Confirm ends the reservation of a pod that is bound: what was prepared is the pod's.
func (r *Reservations) Confirm(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.held[pod]; h != nil {
		r.drop(h)
	}
}

// Abandon ends a Prepare that is under way or still to come as soon as possible, with an error.
func (r *Reservations) Abandon(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[pod]
	if h == nil {
		return
	}
	h.abandoned = true
	if h.cancel != nil {
		h.cancel()
	}
}

// IsOrphaned makes a reservation of the device claims that the API server has reserved for the pod, as a start leaves them
// that a crash has ended, and reports whether there are any. Release withdraws the pod from them, and gives the devices back
// that no other pod has then. A pod that finds no place must not keep them from others, nor be kept by them from nodes where it
// would find one. The loop calls it for a pod that is not placed.
func (r *Reservations) IsOrphaned(pod *corev1.Pod) bool {
	extended := extendedResources(pod)
	if len(pod.Spec.ResourceClaims)+len(extended) == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held[pod.UID] != nil {
		return false
	}
	h := &reservation{pod: pod, node: &corev1.Node{}, state: framework.NewCycleState(), preparing: true,
		prepared: true, // nothing is in flight
	}
	h.claims.namespace, h.claims.byClass = pod.Namespace, extended
	for _, name := range r.claimsOf(pod).devices {
		claim, err := r.claims.Get(pod.Namespace, name)
		if err == nil && resourceclaim.IsReservedForPod(pod, claim, false) {
			h.claims.devices = append(h.claims.devices, name)
			h.pending = append(h.pending, claim.UID)
		}
	}
	if len(h.pending)+len(r.ownClaims(h)) == 0 {
		return false
	}
	h.keys = h.claims.keys()
	r.keep(h)
	return true
}

// Prepare tells the API server what was reserved for the pod, and waits until volumes are bound and devices ready. It may
// take minutes, and is called on a goroutine that may. After an error the reservation is to be released.
func (r *Reservations) Prepare(ctx context.Context, pod types.UID) error {
	h, ctx, err := r.begin(ctx, pod)
	if err != nil {
		return err
	}
	defer h.cancel()
	if err := r.keys.lock(ctx, h.keys); err != nil {
		return fmt.Errorf("waiting for another pod that prepares the same claim: %w", err)
	}
	defer r.keys.unlock(h.keys)
	if err := r.refresh(h); err != nil {
		return err
	}
	defer r.markStale(h)
	for _, plugin := range r.reservePlugins() {
		_, status := plugin.PreBindPreFlight(ctx, h.state, h.pod, h.node.Name)
		if status.IsSkip() {
			continue
		}
		if status.IsSuccess() {
			status = plugin.PreBind(ctx, h.state, h.pod, h.node.Name)
		}
		if !status.IsSuccess() {
			return fmt.Errorf("%s: %w", plugin.Name(), status.AsError())
		}
	}
	h.prepared = true
	return nil
}

// begin marks the reservation as being prepared.
func (r *Reservations) begin(ctx context.Context, pod types.UID) (*reservation, context.Context, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.held[pod]
	switch {
	case h == nil:
		return nil, nil, errors.New("nothing is set aside for the pod")
	case h.abandoned:
		return nil, nil, context.Canceled
	case h.claimsLost != "":
		return nil, nil, errors.New(h.claimsLost)
	}
	h.state.SetPodGroupSchedulingCycle(nil) // the session's, which others use
	h.preparing = true
	ctx, h.cancel = context.WithCancel(ctx)
	return h, ctx, nil
}

// refresh asks everything again when another pod has prepared a claim that this pod shares.
func (r *Reservations) refresh(h *reservation) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !h.stale {
		return nil
	}
	r.unreserve(h)
	given := h.pending // by the caller that was first, for this pod too
	status := r.reserve(r.ctx, h, nil)
	h.pending = append(given, h.pending...)
	if !status.IsSuccess() {
		return fmt.Errorf("a claim shared with other pods: %w", status.AsError())
	}
	h.stale = false
	return nil
}

// markStale marks those that share a claim with the pod, whose state says nothing of what was written.
func (r *Reservations) markStale(h *reservation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.sharing(h, h.keys) {
		other.stale = true
	}
}

// Release ends the reservation of a pod that will not be bound, and gives everything back: devices also at the API server,
// where this pod was given them and no other pod uses them. Volumes that are bound to a claim by then stay so: that cannot be
// undone. A pod without a reservation is no error. It may ask the API server and is called on a goroutine that may wait.
func (r *Reservations) Release(ctx context.Context, pod types.UID) error {
	r.mu.Lock()
	h := r.held[pod]
	r.mu.Unlock()
	if h == nil {
		return nil
	}
	var err error
	if h.preparing {
		err = errors.Join(r.deallocate(ctx, h), r.deleteOwnClaims(ctx, h))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	h.state.SetPodGroupSchedulingCycle(nil) // the session's, which may still go on
	r.unreserve(h)
	r.drop(h)
	return err
}
