package kubeframework

import (
	"context"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/kubernetes/pkg/features"
)

// ServesDeviceTaintRules asks the API server whether it serves the rules by which devices are tainted: one of 1.37 does, one of
// 1.35 does not.
func ServesDeviceTaintRules(client discovery.ServerResourcesInterface) (bool, error) {
	list, err := client.ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }), nil
}

// sliceTracker returns what DynamicResources reads devices from: with the taints of the rules, as kube-scheduler, where the API
// server serves these.
func sliceTracker(ctx context.Context, deps Deps) (*resourceslicetracker.Tracker, error) {
	resources := deps.Informers.Resource().V1()
	options := resourceslicetracker.Options{
		EnableDeviceTaintRules:   !deps.NoDeviceTaintRules && utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resources.ResourceSlices(),
	}
	if options.EnableDeviceTaintRules {
		options.TaintInformer = resources.DeviceTaintRules()
	}
	return resourceslicetracker.StartTracker(ctx, options)
}

// followed is something that the plugins take in after its informer knows it, and that tells when it has changed.
type followed struct {
	synced cache.InformerSynced

	mu      sync.Mutex
	changed []func()
}

// follow lets it tell of what the tracker has taken in: a rule is not told by itself, but with the devices that it taints.
func (f *followed) follow(tracker *resourceslicetracker.Tracker) error {
	registration, err := tracker.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { f.tell() }, UpdateFunc: func(any, any) { f.tell() }, DeleteFunc: func(any) { f.tell() },
	})
	if err != nil {
		return err
	}
	f.synced = registration.HasSynced
	return nil
}

func (f *followed) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, changed := range f.changed {
		changed()
	}
}

func (f *followed) onChange(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = append(f.changed, changed)
}
