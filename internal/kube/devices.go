package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
)

// ServesDeviceTaintRules asks the API server whether it serves this client the rules by which devices are tainted: one of 1.37
// does, one of 1.35 does not, and one whose roles are of an older chart forbids it. What is forbidden is logged.
func ServesDeviceTaintRules(ctx context.Context, client kubernetes.Interface) (bool, error) {
	known, err := client.Discovery().ServerResourcesForGroupVersion(resourceapi.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		warnOfRules(ctx, "get on /apis/"+resourceapi.SchemeGroupVersion.String(), err)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("discovery of %s: %w", resourceapi.SchemeGroupVersion, err)
	}
	if !slices.ContainsFunc(known.APIResources, func(r metav1.APIResource) bool { return r.Name == "devicetaintrules" }) {
		return false, nil
	}
	_, err = client.ResourceV1().DeviceTaintRules().List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsForbidden(err) {
		warnOfRules(ctx, "list, watch on devicetaintrules."+resourceapi.GroupName, err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list of device taint rules: %w", err)
	}
	return true, nil
}

func warnOfRules(ctx context.Context, missing string, err error) {
	klog.FromContext(ctx).Info("Devices are not tainted by DeviceTaintRules: a right to read these is missing",
		"missing", missing, "warning", err.Error())
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

// onAnyChange returns a handler that calls a function for each change.
func onAnyChange(changed func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(any, any) { changed() }, DeleteFunc: func(any) { changed() },
	}
}

// notifyingCache is something that the plugins take in after its informer knows it, and that calls functions when it has changed.
type notifyingCache struct {
	synced cache.InformerSynced

	mu      sync.Mutex
	changed []func()
}

func (f *notifyingCache) notify() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, changed := range f.changed {
		changed()
	}
}

func (f *notifyingCache) onChange(changed func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changed = append(f.changed, changed)
}
