package kube

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
)

// unboundByStorageClass is the index of volumes that are not bound, by storage class.
const unboundByStorageClass = "tutti.dev/free-by-class"

// volumes knows which volume claims leave a choice.
type volumes struct {
	claims  corelisters.PersistentVolumeClaimLister
	classes storagelisters.StorageClassLister
	drivers storagelisters.CSIDriverLister
	all     cache.Indexer
}

func newVolumes(factory informers.SharedInformerFactory) (volumes, error) {
	informer := factory.Core().V1().PersistentVolumes().Informer()
	var err error
	if informer.GetIndexer().GetIndexers()[unboundByStorageClass] == nil { // else another set of plugins has added it
		err = informer.AddIndexers(cache.Indexers{unboundByStorageClass: storageClassOf})
	}
	return volumes{
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		drivers: factory.Storage().V1().CSIDrivers().Lister(),
		all:     informer.GetIndexer(),
	}, err
}

func storageClassOf(object any) ([]string, error) {
	known, ok := object.(*corev1.PersistentVolume)
	if !ok || known.Status.Phase == corev1.VolumeBound {
		return nil, nil
	}
	return []string{volume.GetPersistentVolumeClass(known)}, nil
}

// HasVolumeChoice reports whether VolumeBinding could like one node better than another for the pod: whether a claim of it
// has no volume yet, and there are volumes for it to choose from, or the driver tells how much storage there is to make one
// of. It may be called on any goroutine.
func (p *Plugins) HasVolumeChoice(pod *corev1.Pod) bool {
	if len(pod.Spec.Volumes) == 0 {
		return false
	}
	for _, name := range p.claimsOf(pod).volumes {
		if claim, err := p.volumes.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil && p.volumes.hasChoice(claim) {
			return true
		}
	}
	return false
}

// TooLarge names a claim of the pod of which not all is kept, since it is too large, and says why; empty when there
// is none.
func (p *Plugins) TooLarge(pod *corev1.Pod) string {
	claims := p.claimsOf(pod)
	for _, name := range claims.volumes {
		if claim, err := p.volumes.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil && p.deps.Malformed(claim) != "" {
			return "PersistentVolumeClaim " + name + ": " + p.deps.Malformed(claim)
		}
	}
	for _, name := range claims.devices {
		if claim, err := p.claims.Get(pod.Namespace, name); err == nil && p.deps.Malformed(claim) != "" {
			return "ResourceClaim " + name + ": " + p.deps.Malformed(claim)
		}
	}
	return ""
}

func (v *volumes) hasChoice(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Spec.VolumeName != "" && claim.Annotations[volume.AnnBindCompleted] != "" {
		return false
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	if free, err := v.all.IndexKeys(unboundByStorageClass, name); err != nil || len(free) > 0 {
		return true
	}
	class, err := v.classes.Get(name)
	if err != nil {
		return false // VolumeBinding lets the pod on no node
	}
	driver, err := v.drivers.Get(class.Provisioner)
	return err == nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}
