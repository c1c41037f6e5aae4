package predicates_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// reference is kube-scheduler's own framework with its default filters, resource fit among them, and with informers and
// snapshots of its own: it shares only the objects of the API server with the tested code.
type reference struct {
	framework kube.Framework
	factory   informers.SharedInformerFactory
	shown     *view
	// devices tracks devices, with their taints, and the device classes.
	devices fwk.SharedDRAManager
	// filters are the names of its filters, in their order.
	filters []string
}

// newReference builds it and waits until it has all objects of the client.
func newReference(t *testing.T, client *fake.Clientset) *reference {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	metrics.Register() // the framework counts into metrics that are nil before
	profile := filtersAlone(t)
	devices, synced := newDevices(ctx, t, client, factory)
	r := &reference{factory: factory, shown: &view{SharedLister: cache.NewEmptySnapshot()}, devices: devices}
	var err error
	r.framework, err = kuberuntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		kuberuntime.WithClientSet(client), kuberuntime.WithInformerFactory(factory),
		kuberuntime.WithSnapshotSharedLister(r.shown), kuberuntime.WithSharedDRAManager(devices),
		kuberuntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range r.framework.ListPlugins().Filter.Enabled {
		r.filters = append(r.filters, filter.Name)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !clientcache.WaitForCacheSync(ctx.Done(), synced) {
		t.Fatal("the reference did not sync")
	}
	return r
}

// filtersAlone is kube-scheduler's default profile without plugins that only score or evict and have further dependencies.
func filtersAlone(t *testing.T) *config.KubeSchedulerProfile {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	left := []string{"NodeResourcesBalancedAllocation", "DefaultPreemption"}
	all := &profile.Plugins.MultiPoint
	all.Enabled = slices.DeleteFunc(all.Enabled, func(p config.Plugin) bool { return slices.Contains(left, p.Name) })
	return &profile
}

// newDevices builds the manager of devices as kube-scheduler does, by its feature gates.
func newDevices(
	ctx context.Context, t *testing.T, client *fake.Clientset, factory informers.SharedInformerFactory,
) (fwk.SharedDRAManager, clientcache.InformerSynced) {
	t.Helper()
	resources := factory.Resource().V1()
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), resources.ResourceClaims().Informer(), "ResourceClaim", "", nil)
	tracked, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		EnableDeviceTaintRules:   utilfeature.DefaultFeatureGate.Enabled(features.DRADeviceTaintRules),
		EnableConsumableCapacity: utilfeature.DefaultFeatureGate.Enabled(features.DRAConsumableCapacity),
		SliceInformer:            resources.ResourceSlices(), TaintInformer: resources.DeviceTaintRules(), KubeClient: client,
	})
	if err != nil {
		t.Fatal(err)
	}
	sliced, err := tracked.AddEventHandler(clientcache.ResourceEventHandlerFuncs{})
	if err != nil {
		t.Fatal(err)
	}
	manager := dynamicresources.NewDRAManager(ctx, claims, tracked, factory)
	classes, ok := manager.DeviceClassResolver().(*extendedresourcecache.ExtendedResourceCache)
	if !ok {
		t.Fatal("kube-scheduler does not know which resources device classes provide")
	}
	seen, err := resources.DeviceClasses().Informer().AddEventHandler(classes)
	if err != nil {
		t.Fatal(err)
	}
	handled := claims.AddEventHandler(clientcache.ResourceEventHandlerFuncs{})
	return manager, func() bool { return seen.HasSynced() && handled.HasSynced() && sliced.HasSynced() }
}

// verdict is kube-scheduler's result for one pod and one node.
type verdict struct {
	// by maps each filter that refuses, run on its own, to its possible messages; empty when the node is feasible.
	by map[string][]string
	// whole reports whether a filter refused all nodes together, and the others were not run for each.
	whole bool
}

// judge filters all nodes for the pod, each with the pods that are on it.
func (r *reference) judge(t *testing.T, pod *corev1.Pod, nodes []*corev1.Node, placed []*corev1.Pod) []verdict {
	t.Helper()
	r.shown.show(placed, nodes)
	ctx, state := context.Background(), kube.NewCycleState()
	result, status, _ := r.framework.RunPreFilterPlugins(ctx, state, pod)
	verdicts := make([]verdict, len(nodes))
	if !status.IsSuccess() {
		for i := range verdicts {
			verdicts[i] = verdict{by: map[string][]string{status.Plugin(): words(status)}, whole: true}
		}
		return verdicts
	}
	skipped := state.GetSkipFilterPlugins()
	for i, node := range nodes {
		known, err := r.shown.NodeInfos().Get(node.Name)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string][]string{}
		for _, filter := range r.filters {
			if skipped.Has(filter) {
				continue
			}
			state.SetSkipFilterPlugins(sets.New(r.filters...).Union(skipped).Delete(filter))
			if status := r.framework.RunFilterPlugins(ctx, state, pod, known); !status.IsSuccess() {
				by[filter] = words(status)
			}
		}
		state.SetSkipFilterPlugins(skipped)
		if together := r.framework.RunFilterPlugins(ctx, state, pod, known); together.IsSuccess() != (len(by) == 0) {
			t.Fatalf("kube-scheduler contradicts itself: %v together, %v apart", together, by)
		}
		if !result.AllNodes() && !result.NodeNames.Has(node.Name) {
			by["NodeAffinity"] = append(by["NodeAffinity"], "didn't satisfy plugin NodeAffinity")
		}
		verdicts[i] = verdict{by: by}
	}
	return verdicts
}

// reserve reserves what the pod gets on the node that it names, and returns a function that undoes it. The pod was filtered
// before, and nothing has changed since.
func (r *reference) reserve(t *testing.T, pod *corev1.Pod) (takeBack func()) {
	t.Helper()
	ctx, state := context.Background(), kube.NewCycleState()
	node, err := r.shown.NodeInfos().Get(pod.Spec.NodeName)
	if err != nil {
		t.Fatal(err)
	}
	waiting := pod.DeepCopy()
	waiting.Spec.NodeName = ""
	_, status, _ := r.framework.RunPreFilterPlugins(ctx, state, waiting)
	if status.IsSuccess() {
		status = r.framework.RunFilterPlugins(ctx, state, waiting, node)
	}
	if status.IsSuccess() {
		status = r.framework.RunReservePluginsReserve(ctx, state, pod, node.Node().Name)
	}
	if !status.IsSuccess() {
		t.Fatalf("kube-scheduler does not set aside for %s what it has just promised: %v", pod.Name, status)
	}
	return func() { r.framework.RunReservePluginsUnreserve(ctx, state, pod, node.Node().Name) }
}

// words are the messages that our refusal may have for a status: for resources any that is lacking, else all reasons; for an
// error, the plugin and its message.
func words(status *fwk.Status) []string {
	if err := status.AsError(); status.Code() == fwk.Error {
		return []string{status.Plugin() + " failed: " + errors.Unwrap(err).Error()}
	}
	if status.Plugin() != "NodeResourcesFit" {
		return []string{strings.TrimPrefix(status.Message(), "node(s) ")}
	}
	lacking := slices.Clone(status.Reasons())
	for i, reason := range lacking {
		lacking[i] = "lacks " + strings.TrimPrefix(reason, "Insufficient ")
		if reason == "Too many pods" {
			lacking[i] = "lacks pods"
		}
	}
	return lacking
}

// allowed are the messages that a refusal of the node may have, none when it is feasible.
func (v verdict) allowed() []string {
	all := sets.New[string]()
	for _, words := range v.by {
		all.Insert(words...)
	}
	return sets.List(all)
}
