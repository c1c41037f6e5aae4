package kube

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Pending returns the devices of a claim whose pod is being placed, nil when there are none.
func (r *Reservations) Pending(claim types.UID) *resourceapi.AllocationResult {
	return r.claims.GetPendingAllocation(claim)
}

// Forget takes the devices of a claim back that its pod was to get.
func (r *Reservations) Forget(claim types.UID) {
	r.claims.MaybeRemoveClaimPendingAllocation(claim, false)
}
