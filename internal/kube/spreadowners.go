package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// stripOwner keeps of an object what DefaultSelector reads: its name and what it selects. One that selects by more than
// maxSelector bytes selects nothing.
func stripOwner(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Service:
		kept := &corev1.Service{ObjectMeta: identityOf(&o.ObjectMeta)}
		kept.Spec.Selector = boundSelector(o.Spec.Selector)
		return kept, nil
	case *corev1.ReplicationController:
		kept := &corev1.ReplicationController{ObjectMeta: identityOf(&o.ObjectMeta)}
		kept.Spec.Selector = boundSelector(o.Spec.Selector)
		return kept, nil
	case *appsv1.ReplicaSet:
		kept := &appsv1.ReplicaSet{ObjectMeta: identityOf(&o.ObjectMeta)}
		if o.Spec.Selector.Size() <= maxSelector {
			kept.Spec.Selector = o.Spec.Selector
		}
		return kept, nil
	case *appsv1.StatefulSet:
		kept := &appsv1.StatefulSet{ObjectMeta: identityOf(&o.ObjectMeta)}
		if o.Spec.Selector.Size() <= maxSelector {
			kept.Spec.Selector = o.Spec.Selector
		}
		return kept, nil
	}
	return object, nil
}

// maxSelector is the longest selector that is kept, in bytes.
const maxSelector = 4 << 10

func boundSelector(selector map[string]string) map[string]string {
	if (&metav1.LabelSelector{MatchLabels: selector}).Size() > maxSelector {
		return nil
	}
	return selector
}

func identityOf(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID, ResourceVersion: meta.ResourceVersion}
}

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
		for _, informer := range []cache.SharedInformer{
			services.Informer(), controllers.Informer(), replicas.Informer(), stateful.Informer(),
		} {
			_ = informer.SetTransform(stripOwner) // it fails once an informer has started, which Freeze rules out
			o.watched = append(o.watched, informer.HasSynced)
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
