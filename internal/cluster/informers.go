package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

// Watch makes the informers of both factories push what they see: pods, nodes, priority classes, disruption budgets and
// PodGroups. It must be called before the factories start; push is called on the informers' goroutines and must not block.
// Each source has synced when everything that was there at the start has been pushed.
func Watch(
	kube informers.SharedInformerFactory, groups externalversions.SharedInformerFactory, push func(Event),
) ([]*Source, error) {
	pods := kube.Core().V1().Pods().Informer()
	nodes := kube.Core().V1().Nodes().Informer()
	classes := kube.Scheduling().V1().PriorityClasses().Informer()
	budgets := kube.Policy().V1().PodDisruptionBudgets().Informer()
	podGroups := groups.Scheduling().V1alpha1().PodGroups().Informer()

	shared := &specInterner{}
	stripAndShare := func(pod *corev1.Pod) *corev1.Pod { return shared.intern(KeptPod(pod)) }
	watched := []informerSpec{
		{"pods", pods, strip(stripAndShare), eventHandler(push, func(pod *corev1.Pod, gone bool) Event { return &PodSeen{pod, gone} })},
		{"nodes", nodes, strip(StripNode), eventHandler(push, func(node *corev1.Node, gone bool) Event { return &NodeSeen{node, gone} })},
		{"priority classes", classes, withoutManagedFields, eventHandler(push,
			func(class *schedulingv1.PriorityClass, gone bool) Event { return &PriorityClassSeen{class, gone} })},
		{"pod disruption budgets", budgets, strip(stripBudget), eventHandler(push,
			func(budget *policyv1.PodDisruptionBudget, gone bool) Event { return &BudgetSeen{budget, gone} })},
		{"pod groups", podGroups, strip(stripGroup), eventHandler(push,
			func(group *v1alpha1.PodGroup, gone bool) Event { return &GroupSeen{group, gone} })},
	}
	return register(watched)
}

// WatchOthers makes the informers that kube-scheduler's volume, claim and affinity plugins read tell when something they
// read has changed; namespaces and device classes mean something to the state, too. The rules of Watch hold.
func WatchOthers(kube informers.SharedInformerFactory, push func(Event)) ([]*Source, error) {
	happened := func() { push(&OtherSeen{}) }
	other := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { happened() }, UpdateFunc: func(any, any) { happened() }, DeleteFunc: func(any) { happened() },
	}
	core, storage, resource := kube.Core().V1(), kube.Storage().V1(), kube.Resource().V1()
	return register([]informerSpec{
		{"namespaces", core.Namespaces().Informer(), strip(stripNamespace), eventHandler(push,
			func(namespace *corev1.Namespace, gone bool) Event { return &NamespaceSeen{namespace, gone} })},
		{"persistent volume claims", core.PersistentVolumeClaims().Informer(), strip(boundVolumeClaim), other},
		{"persistent volumes", core.PersistentVolumes().Informer(), withoutManagedFields, other},
		{"storage classes", storage.StorageClasses().Informer(), withoutManagedFields, other},
		{"CSI nodes", storage.CSINodes().Informer(), withoutManagedFields, other},
		{"CSI drivers", storage.CSIDrivers().Informer(), withoutManagedFields, other},
		{"volume attachments", storage.VolumeAttachments().Informer(), withoutManagedFields, other},
		{"CSI storage capacities", storage.CSIStorageCapacities().Informer(), withoutManagedFields, other},
		{"resource claims", resource.ResourceClaims().Informer(), strip(boundResourceClaim), eventHandler(push,
			func(claim *resourceapi.ResourceClaim, gone bool) Event { return &ClaimSeen{claim, gone} })},
		{"resource slices", resource.ResourceSlices().Informer(), withoutManagedFields, other},
		{"device classes", resource.DeviceClasses().Informer(), withoutManagedFields, eventHandler(push,
			func(class *resourceapi.DeviceClass, gone bool) Event { return &DeviceClassSeen{class, gone} })},
	})
}

// WatchLeases makes the informer of a factory, which is of the agents' namespace alone, push their Leases. The rules of Watch
// hold.
func WatchLeases(kube informers.SharedInformerFactory, push func(Event)) ([]*Source, error) {
	return register([]informerSpec{{"leases", kube.Coordination().V1().Leases().Informer(), withoutManagedFields, eventHandler(push,
		func(lease *coordinationv1.Lease, gone bool) Event { return &LeaseSeen{lease, gone} })}})
}

// WatchQueues makes the informer of a factory push the queues. The rules of Watch hold. Without it there are no queues, as
// where the API server does not serve them.
func WatchQueues(groups externalversions.SharedInformerFactory, push func(Event)) ([]*Source, error) {
	return register([]informerSpec{{"queues", groups.Scheduling().V1alpha1().Queues().Informer(), withoutManagedFields, eventHandler(push,
		func(queue *v1alpha1.Queue, gone bool) Event { return &QueueSeen{queue, gone} })}})
}

// ServesQueues asks the API server whether it serves queues to this client: one with an older CRD does not, and one whose roles
// are of an older chart forbids it. What is forbidden is logged.
func ServesQueues(ctx context.Context, groups versioned.Interface) (bool, error) {
	_, err := groups.SchedulingV1alpha1().Queues().List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		klog.FromContext(ctx).Info("Queues are not looked at: the right to list and watch queues.scheduling.tutti.dev is missing", "reason", err.Error())
		return false, nil
	case err != nil:
		return false, fmt.Errorf("list of queues: %w", err)
	}
	return true, nil
}

// informerSpec is one informer and what is done with what it sees.
type informerSpec struct {
	name      string
	informer  cache.SharedIndexInformer
	transform cache.TransformFunc
	handler   cache.ResourceEventHandler
}

func register(all []informerSpec) ([]*Source, error) {
	sources := make([]*Source, 0, len(all))
	for _, w := range all {
		if w.transform != nil {
			if err := w.informer.SetTransform(w.transform); err != nil {
				return nil, fmt.Errorf("transform of %s: %w", w.name, err)
			}
		}
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return nil, fmt.Errorf("watch of %s: %w", w.name, err)
		}
		source := &Source{Name: w.name, HasSynced: registration.HasSynced}
		if err := w.informer.SetWatchErrorHandlerWithContext(source.failed); err != nil {
			return nil, fmt.Errorf("errors of %s: %w", w.name, err)
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// Source is where events come from. It is safe for concurrent use.
type Source struct {
	// Name is what is watched, in the plural.
	Name string
	// HasSynced reports whether everything that was there at the start has been pushed.
	HasSynced cache.InformerSynced
	failure   atomic.Pointer[error]
}

// Ready returns, while the source has not synced, an error with its name and why its last list or watch failed, if one did.
func (s *Source) Ready() error {
	if s.HasSynced() {
		return nil
	}
	if failure := s.failure.Load(); failure != nil {
		return fmt.Errorf("%s: %w", s.Name, *failure)
	}
	return errors.New(s.Name)
}

// failed is the informer's handler of errors.
func (s *Source) failed(ctx context.Context, reflector *cache.Reflector, err error) {
	s.failure.Store(&err)
	cache.DefaultWatchErrorHandler(ctx, reflector, err)
}

// strip makes a transform of a function; what is not a T, such as a tombstone, passes as it is.
func strip[T any](f func(T) T) cache.TransformFunc {
	return func(object any) (any, error) {
		if typed, ok := object.(T); ok {
			return safeTransform(f, typed), nil
		}
		return object, nil
	}
}

// safeTransform is what f makes of an object, and the object itself when that panics: State.Apply will then report why.
func safeTransform[T any](f func(T) T, object T) T {
	transformed := object
	if recovered(func() { transformed = f(object) }) != "" {
		return object
	}
	return transformed
}

// eventHandler makes a handler that pushes the event of each object. A deletion that the watch missed comes as a tombstone
// with the object as it was last seen, or, when there is another object of its name by then, as a change of UID: what
// knows objects by their UID must see the end of the first one too.
func eventHandler[T any](push func(Event), event func(object T, gone bool) Event) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			if typed, ok := object.(T); ok {
				push(event(typed, false))
			}
		},
		UpdateFunc: func(before, object any) {
			if typed, ok := before.(T); ok && isReplacement(before, object) {
				push(event(typed, true))
			}
			if typed, ok := object.(T); ok {
				push(event(typed, false))
			}
		},
		DeleteFunc: func(object any) {
			if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = missed.Obj
			}
			if typed, ok := object.(T); ok {
				push(event(typed, true))
			}
		},
	}
}

// isReplacement reports whether an object is another one than the one before it of the same name.
func isReplacement(before, after any) bool {
	first, ok := before.(metav1.Object)
	second, alsoOK := after.(metav1.Object)
	return ok && alsoOK && first.GetUID() != second.GetUID()
}

// withoutManagedFields drops what only the API server needs.
func withoutManagedFields(object any) (any, error) {
	if described, ok := object.(metav1.Object); ok {
		described.SetManagedFields(nil)
	}
	return object, nil
}
