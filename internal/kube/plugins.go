package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	kuberuntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
)

// builtPlugins names the plugins that New builds. Resource fit and resource scores are the scheduler's own arithmetic and not
// among them, nor are InterPodAffinity and PodTopologySpread, which pkg/topology stands in for; SchedulingGates is
// Task.SchedulingGated.
func builtPlugins() []string {
	return []string{
		names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, names.NodePorts,
		names.VolumeRestrictions, names.NodeVolumeLimits, names.VolumeBinding, names.VolumeZone,
		names.DynamicResources, names.NodeDeclaredFeatures, names.ImageLocality,
	}
}

// Deps is what kube-scheduler's plugins read from. All fields but the last three are required.
type Deps struct {
	// Lister is the view of nodes and pods that follows the session. Only the session's goroutine, and what a plugin
	// starts and awaits within one call, reads it.
	Lister fwk.SharedLister
	// Informers are asked for everything else, and must be started after New.
	Informers informers.SharedInformerFactory
	// Client is for what Prepare and Release of Reservations write: volumes and claims. Many goroutines use it at the same time.
	Client kubernetes.Interface
	// Namespaces knows the labels of namespaces; nil is what their informer has seen, which may change within a session.
	Namespaces Namespaces
	// Malformed says why not all of a claim is known, empty when all is; nil when all claims are known.
	Malformed func(claim metav1.Object) string
	// NoDeviceTaintRules reports that the API server does not serve them, or forbids them, as ServesDeviceTaintRules finds out: an
	// informer would wait for them indefinitely.
	NoDeviceTaintRules bool
}

// Plugins are kube-scheduler's plugins, ready to be asked. They are asked on one goroutine at a time, except what
// Reservations says of itself.
type Plugins struct {
	// Reservations are the volumes and devices reserved for pods.
	*Reservations
	Namespaces
	spreadOwners
	classes deviceClasses
	found   filterState
	volumes volumes

	ctx        context.Context // carries the logger of calls whose own interface has no context
	deps       Deps
	tracker    *resourceslicetracker.Tracker
	slices     *inventoryWatch
	plugins    map[string]fwk.Plugin
	claimCache *assumecache.AssumeCache

	claimsSynced, attachmentsSynced cache.InformerSynced
	inventorySynced                 cache.InformerSynced // nil before WatchDevices
}

// New builds the plugins. Several register event handlers and indexes with the informers, so it is called once per process and
// before the informers start. What it starts in the background ends with the context.
func New(ctx context.Context, deps Deps) (*Plugins, error) {
	if deps.Lister == nil || deps.Informers == nil || deps.Client == nil {
		return nil, errors.New("kube-scheduler plugins: lister, informers and client are required")
	}
	if deps.Namespaces == nil {
		deps.Namespaces = informedNamespaces{deps.Informers.Core().V1().Namespaces().Lister()}
	}
	if deps.Malformed == nil {
		deps.Malformed = func(metav1.Object) string { return "" }
	}
	metrics.Register() // the plugins count into metrics that are nil before
	tracker, err := sliceTracker(ctx, deps)
	if err != nil {
		return nil, fmt.Errorf("resource slice tracker: %w", err)
	}
	slices, err := watchSlices(tracker)
	if err != nil {
		return nil, err
	}
	return build(ctx, deps, tracker, slices, "")
}

// Another builds the plugins once more, over the same informers and another view, for another goroutine. It reserves on its
// own: what is reserved in the one is free in the other, and it sends no request to the API server. Call it before the
// informers start, once.
func (p *Plugins) Another(lister fwk.SharedLister, namespaces Namespaces) (*Plugins, error) {
	deps := p.deps
	deps.Lister, deps.Namespaces = lister, namespaces
	client, err := kubernetes.NewForConfig(&rest.Config{Transport: refusing{}})
	if err != nil {
		return nil, fmt.Errorf("client that sends nothing: %w", err)
	}
	deps.Client = client
	return build(p.ctx, deps, p.tracker, p.slices, "another")
}

// refusing sends no request.
type refusing struct{}

func (refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("%s %s: plugins of a rehearsal ask the API server for nothing", request.Method, request.URL.Path)
}

// build builds the plugins. The name is the set's: the plugins make an index by it.
func build(
	ctx context.Context, deps Deps, tracker *resourceslicetracker.Tracker, slices *inventoryWatch, name string,
) (*Plugins, error) {
	args, err := arguments()
	if err != nil {
		return nil, err
	}
	claims := assumecache.NewAssumeCache(
		klog.FromContext(ctx), deps.Informers.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	manager := dynamicresources.NewDRAManager(ctx, claims, tracker, deps.Informers)
	devices := recordingDRA{SharedDRAManager: manager, claims: newRecordingClaimTracker(manager.ResourceClaims(), claims)}
	handle, err := kuberuntime.NewFramework(ctx, nil, nil,
		kuberuntime.WithClientSet(deps.Client),
		kuberuntime.WithEventRecorder(discardEvents{}),
		kuberuntime.WithInformerFactory(deps.Informers),
		kuberuntime.WithSnapshotSharedLister(deps.Lister),
		kuberuntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(deps.Informers.Storage().V1().CSINodes().Lister())),
		kuberuntime.WithParallelism(runtime.GOMAXPROCS(0)),
	)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler handle: %w", err)
	}
	p := &Plugins{
		ctx: ctx, deps: deps, tracker: tracker, slices: slices, plugins: map[string]fwk.Plugin{}, claimCache: claims,
		Namespaces: deps.Namespaces, spreadOwners: spreadOwners{informers: deps.Informers},
		claimsSynced:      claims.AddEventHandler(cache.ResourceEventHandlerFuncs{}).HasSynced,
		attachmentsSynced: deps.Informers.Storage().V1().VolumeAttachments().Informer().HasSynced,
	}
	if err := p.classes.watch(devices.DeviceClassResolver(), deps.Informers); err != nil {
		return nil, fmt.Errorf("device classes: %w", err)
	}
	if p.volumes, err = newVolumes(deps.Informers); err != nil {
		return nil, fmt.Errorf("index of volumes: %w", err)
	}
	factories := plugins.NewInTreeRegistry()
	for _, plugin := range builtPlugins() {
		built, err := factories[plugin](ctx, args[plugin], namedHandle{handle, name, devices})
		if err != nil {
			return nil, fmt.Errorf("kube-scheduler plugin %s: %w", plugin, err)
		}
		p.plugins[plugin] = built
	}
	shown := &nodeDRA{recordingDRA: devices}
	onNode, err := factories[names.DynamicResources](ctx, args[names.DynamicResources], namedHandle{handle, name + "reserve", shown})
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler plugin %s: %w", names.DynamicResources, err)
	}
	p.Reservations, err = newReservations(ctx, p.plugins[names.VolumeBinding], onNode, shown, slices.inventory, deps.Client)
	return p, err
}

// Plugin returns the plugin of kube-scheduler's name, nil when New does not build it.
func (p *Plugins) Plugin(name string) fwk.Plugin { return p.plugins[name] }

// HasSynced reports whether the plugins have taken in what their own informers first listed: resource claims, slices and device
// classes, which are taken in a moment after their informers have synced, and volume attachments and owners, which no other
// component reads; after WatchDevices, the devices were pushed, too. It may be called on any goroutine, and is true only after
// the informers were started.
func (p *Plugins) HasSynced() bool {
	return p.claimsSynced() && p.attachmentsSynced() && p.classes.synced() && p.slices.synced() && p.synced() &&
		(p.inventorySynced == nil || p.inventorySynced())
}

// ByDeviceClass reports whether a device class provides devices for the extended resource, as DynamicResources sees it. It may
// be called on any goroutine.
func (p *Plugins) ByDeviceClass(resource corev1.ResourceName) bool {
	return p.classes.GetDeviceClass(resource) != nil
}

// OnDevices has changed called whenever a device claim, a device class or a device, with its taints, is not what the plugins
// took it for before: as its informer tells it, but never before the plugins know, and as Prepare and Release have left it. It
// is called on their goroutines, also while a session takes something back, and must return immediately.
func (p *Plugins) OnDevices(changed func()) {
	p.classes.onChange(changed)
	p.slices.onChange(changed)
	p.claimCache.AddEventHandler(onAnyChange(changed))
}

// Lister returns the view of nodes and pods that the plugins read.
func (p *Plugins) Lister() fwk.SharedLister { return p.deps.Lister }

// Context returns the context that calls of the plugins are made with; it carries their logger.
func (p *Plugins) Context() context.Context { return p.ctx }

// NewState returns an empty state for the questions about one pod.
func (p *Plugins) NewState() fwk.CycleState { return framework.NewCycleState() }

// NewGroup returns what the members of one job have in common in one session: a device claim that several of them share is
// allocated once, with the first that is placed.
func (p *Plugins) NewGroup() fwk.PodGroupCycleState { return framework.NewCycleState() }

// NewStateIn returns an empty state for the questions about one pod of a group; nil is none.
func (p *Plugins) NewStateIn(group fwk.PodGroupCycleState) fwk.CycleState {
	state := framework.NewCycleState()
	state.SetPodGroupSchedulingCycle(group)
	return state
}

// arguments returns the default arguments of each plugin that takes any.
func arguments() (map[string]apiruntime.Object, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler default configuration: %w", err)
	}
	args := map[string]apiruntime.Object{}
	for _, plugin := range defaults.Profiles[0].PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	return args, nil
}

// namedHandle has a name, of which DynamicResources makes that of an index, and a manager of devices.
type namedHandle struct {
	fwk.Handle
	name    string
	devices fwk.SharedDRAManager
}

// ProfileName returns the name.
func (h namedHandle) ProfileName() string { return h.name }

// SharedDRAManager returns the manager.
func (h namedHandle) SharedDRAManager() fwk.SharedDRAManager { return h.devices }

// discardEvents drops the events that plugins tell while they prepare a pod. What there is to say is said once per job.
type discardEvents struct{}

var _ events.EventRecorderLogger = discardEvents{}

// Eventf drops the event.
func (discardEvents) Eventf(_, _ apiruntime.Object, _, _, _, _ string, _ ...any) {}

// WithLogger returns the same.
func (s discardEvents) WithLogger(klog.Logger) events.EventRecorderLogger { return s }
