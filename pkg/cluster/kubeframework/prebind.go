package kubeframework

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// What PreBind would have to do before the pod may be bound, in the user's words.
const (
	volumesUnbound   = "pod has volume claims that must be bound first, which is not supported yet"
	claimsUnreserved = "pod has resource claims that must be allocated and reserved for it first, which is not supported yet"
)

// NeedsPreBind says what kube-scheduler would do for the pod before binding it, empty when nothing: a volume claim that
// is bound to a volume only once a node is chosen, or a resource claim that is not allocated and reserved for the pod.
// Commits have no PreBind yet, so such a pod must not be bound; this check goes away when they have.
func (p *Plugins) NeedsPreBind(pod *corev1.Pod) string {
	for i := range pod.Spec.Volumes {
		if p.volumeUnbound(pod, &pod.Spec.Volumes[i]) {
			return volumesUnbound
		}
	}
	for i := range pod.Spec.ResourceClaims {
		if p.claimUnreserved(pod, &pod.Spec.ResourceClaims[i]) {
			return claimsUnreserved
		}
	}
	return ""
}

func (p *Plugins) volumeUnbound(pod *corev1.Pod, volume *corev1.Volume) bool {
	var name string
	switch {
	case volume.PersistentVolumeClaim != nil:
		name = volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		name = ephemeral.VolumeClaimName(pod, volume)
	default:
		return false
	}
	claim, err := p.volumes.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return true // not there yet; VolumeBinding has said so in better words
	}
	_, completed := claim.Annotations[storagehelpers.AnnBindCompleted]
	return claim.Spec.VolumeName == "" || !completed
}

func (p *Plugins) claimUnreserved(pod *corev1.Pod, reference *corev1.PodResourceClaim) bool {
	name, _, err := resourceclaim.Name(pod, reference)
	if err != nil {
		return true // not generated yet; DynamicResources has said so in better words
	}
	if name == nil {
		return false // the template made no claim, so the pod needs none
	}
	claim, err := p.claims.Get(pod.Namespace, *name)
	if err != nil {
		return true
	}
	return claim.Status.Allocation == nil || !resourceclaim.IsReservedForPod(pod, claim, false)
}
