package kubeplugins

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// spreadOwners knows what gives a pod its siblings, once SpreadSelector was called.
type spreadOwners struct {
	informers informers.SharedInformerFactory
	watched   []cache.InformerSynced
	// sealed reports that no informer may be added any more.
	sealed bool
}

// Freeze ends the time in which New and SpreadSelector may ask for informers. Call it before they start, and before anything
// runs.
func (o *spreadOwners) Freeze() { o.sealed = true }

// SpreadSelector returns a function that tells which pods are of the same kind as a pod: those that its Services and its
// controller select, of kube-scheduler's four kinds; the empty selector when there are none. From the first call on Services,
// ReplicationControllers, ReplicaSets and StatefulSets are watched, so it is called only when it is needed; it is nil when the
// first call comes after Seal. The function may be called on any goroutine.
func (o *spreadOwners) SpreadSelector() func(pod *corev1.Pod) labels.Selector {
	services, controllers := o.informers.Core().V1().Services(), o.informers.Core().V1().ReplicationControllers()
	replicas, stateful := o.informers.Apps().V1().ReplicaSets(), o.informers.Apps().V1().StatefulSets()
	switch {
	case o.watched != nil:
	case o.sealed:
		return nil
	default:
		o.watched = []cache.InformerSynced{
			services.Informer().HasSynced, controllers.Informer().HasSynced,
			replicas.Informer().HasSynced, stateful.Informer().HasSynced,
		}
	}
	return func(pod *corev1.Pod) labels.Selector {
		return helper.DefaultSelector(pod, services.Lister(), controllers.Lister(), replicas.Lister(), stateful.Lister())
	}
}

// synced reports whether those that are watched were first listed.
func (o *spreadOwners) synced() bool {
	for _, synced := range o.watched {
		if !synced() {
			return false
		}
	}
	return true
}
