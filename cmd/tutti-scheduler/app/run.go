package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	groupinformers "github.com/tutti-sched/tutti/apis/client/informers/externalversions"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/model"
)

// run wires the scheduler and runs it until the context ends.
func (o *options) run(ctx context.Context) error {
	ctrl.SetLogger(klog.Background())
	klog.FromContext(ctx).Info("Starting", "version", version.Version())
	restConfig, err := o.restConfig()
	if err != nil {
		return err
	}
	var election *elector
	if o.leaderElect {
		namespace, err := o.namespace()
		if err != nil {
			return err
		}
		if election, err = newElector(restConfig, namespace); err != nil {
			return err
		}
	}
	process, err := o.wire(ctx, restConfig, election)
	if err != nil {
		return err
	}
	if err := process.checkCRD(); err != nil {
		return err
	}
	if err := o.certify(process, restConfig); err != nil {
		return err
	}
	mgr, err := o.manager(restConfig, process)
	if err != nil {
		return err
	}
	watchdog := lease.NewWatchdog(o.stepLimit, process.loop.Progress)
	return unlessStuck(ctx, watchdog, election, func(ctx context.Context) error {
		return election.whileHeld(ctx, func(ctx context.Context, elected <-chan struct{}) error { return process.run(ctx, mgr, elected) })
	})
}

func (o *options) restConfig() (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		if o.kubeconfig == "" {
			return nil, fmt.Errorf("no --kubeconfig given and not inside a cluster: %w", err)
		}
		return nil, fmt.Errorf("kubeconfig %s: %w", o.kubeconfig, err)
	}
	config.DisableCompression = true // it costs API server and scheduler more than it saves so near to each other
	return config, nil
}

// process is everything that runs.
type process struct {
	informers informers.SharedInformerFactory
	groups    groupinformers.SharedInformerFactory
	// leases is of the namespace of the agents' Leases; nil when these are not looked at.
	leases  informers.SharedInformerFactory
	mailbox *scheduler.Mailbox
	driver  *commit.Driver
	loop    *scheduler.Scheduler
	// desk answers questions about what would happen.
	desk *rehearse.Desk
	// gates are the feature gates of the flags.
	gates string
	// served is what the API server served at the start, servesQueues whether it served Queues; measured are the metrics.
	served       kube.Served
	servesQueues bool
	measured     *telemetry.Metrics
	// live is the configuration, which follows its source.
	live *configuration.Watcher

	// pods reads pods and the like, client PodGroups and Queues.
	pods    *kubernetes.Clientset
	client  *versioned.Clientset
	sources []*cluster.Source
	// foreign reads the groups of other projects.
	foreign *cluster.Follower
	synced  atomic.Bool

	// certificate is the endpoint's own, and published the ConfigMaps of the namespace where it is made known; nil for nowhere.
	certificate *tls.Certificate
	published   corev1client.ConfigMapInterface

	schedulerNames []string
	// election is nil when this is the only replica.
	election *elector
}

// wire makes the parts and joins them; nothing runs yet, and the API server is asked for nothing but the configuration and
// what it serves and lets be read. A nil election is none.
func (o *options) wire(ctx context.Context, restConfig *rest.Config, election *elector) (*process, error) {
	readConfig := rest.CopyConfig(restConfig)
	readConfig.ContentType = "application/vnd.kubernetes.protobuf"
	readConfig.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(readConfig)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	groupClient, err := cluster.NewGroupClient(restConfig)
	if err != nil {
		return nil, fmt.Errorf("PodGroup client: %w", err)
	}
	p := &process{
		informers: informers.NewSharedInformerFactory(client, 0),
		groups:    groupinformers.NewSharedInformerFactory(groupClient, 0),
		mailbox:   scheduler.NewMailbox(),
		pods:      client, client: groupClient, schedulerNames: o.schedulerNames, election: election,
	}
	if o.leaseNamespace != "" {
		p.leases = informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(o.leaseNamespace))
	}
	writer, err := commit.NewClient(commit.Fenced(commit.ClientConfig(restConfig), election.mayWrite), commit.Reporter{
		Controller: o.schedulerNames[0], Instance: instance(),
	})
	if err != nil {
		return nil, err
	}
	dynamicClient, err := dynamic.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("client for groups of other projects: %w", err)
	}
	p.foreign = cluster.NewFollower(client.Discovery(), dynamicClient, p.mailbox.Event)
	state := cluster.New(cluster.Options{SchedulerNames: o.schedulerNames, Dimensions: model.NewDimensions(), AgentLeases: o.agentLeases(), Await: p.foreign.Await})
	preparing, err := kubernetes.NewForConfig(prepareConfig(readConfig, election.mayWrite))
	if err != nil {
		return nil, fmt.Errorf("client for volumes and claims: %w", err)
	}
	p.gates = o.featureGates
	kubePlugins, err := p.openKube(ctx, o.featureGates, state, preparing)
	if err != nil {
		return nil, err
	}
	rehearsals, err := o.openRehearsals(p, kubePlugins)
	if err != nil {
		return nil, err
	}
	profile, err := o.configure(ctx, p, kubePlugins, client, writer)
	if err != nil {
		return nil, err
	}
	kubePlugins.Freeze()
	state.Configure(profile.Translators(), profile.MaxGrace(), profile.SourcesOff...)
	p.foreign.Use(profile.SourcesOff)
	writer.UseBinders(profile.PodBinders())
	if p.measured, err = telemetry.New(metrics.Registry); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if p.sources, err = watch(ctx, p, kubePlugins); err != nil {
		return nil, err
	}
	machine := o.wireCommit(p, writer, p.measured.Preparer(kubePlugins, clock.RealClock{}))
	p.loop = scheduler.New(state, machine, profile, p.driver, p.mailbox, scheduler.Options{
		Clock: clock.RealClock{}, Verify: os.Getenv("TUTTI_VERIFY") == "1", Metrics: p.measured,
		Reservations: kubePlugins, BindDeadline: o.bindDeadline,
	})
	p.desk = rehearse.NewDesk(p.loop, rehearsals, clock.RealClock{})
	if err := metrics.Registry.Register(telemetry.NewState(p.loop, clock.RealClock{})); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return p, nil
}

// openKube builds kube-scheduler's plugins, of what the API server serves and lets be read.
func (p *process) openKube(
	ctx context.Context, gates string, state *cluster.State, preparing kubernetes.Interface,
) (*kube.Plugins, error) {
	served, err := kube.FollowServer(ctx, p.pods, utilfeature.DefaultMutableFeatureGate, gates)
	if err != nil {
		return nil, err
	}
	p.served = served
	kubePlugins, err := kube.New(ctx, kube.Deps{
		Malformed: cluster.Malformed,
		Lister:    state.View(), Informers: p.informers, Client: preparing, Namespaces: state,
		NoDeviceTaintRules: !served.DeviceTaintRules,
	})
	if err != nil {
		return nil, err
	}
	// The informer may tell the loop of a claim or a device before the plugins know it.
	kubePlugins.OnDevices(func() { p.mailbox.Event(&cluster.OtherSeen{}) })
	return kubePlugins, kubePlugins.WatchDevices(func(devices *kube.NodeDevices) { p.mailbox.Event(&cluster.DevicesSeen{Devices: devices}) })
}

// agentLeases is what the flags say of the Leases of agents.
func (o *options) agentLeases() cluster.AgentLeases {
	switch {
	case o.withoutAgents:
		return cluster.LeasesIgnored
	case o.leaseNamespace != "":
		return cluster.LeasesWatched
	default:
		return cluster.LeasesUnwatched
	}
}

// workers is how many requests are under way at most, without those of kube-scheduler's plugins; half of them may write status,
// conditions and events.
const workers = 64

// wireCommit makes what decides about writes, and what carries them out.
func (o *options) wireCommit(p *process, writer *commit.Client, preparer commit.Preparer) *commit.Machine {
	p.driver = commit.NewDriver(writer, commit.DriverOptions{
		Workers: workers, Backlog: 3 * workers, Preparer: preparer, Timeout: lease.RequestTimeout, MayWrite: p.election.mayWrite,
	}, p.mailbox.Reply)
	return commit.New(commit.Options{
		Workers: 4 * workers, Writes: workers / 2, BindDeadline: o.bindDeadline, RequestTimeout: lease.RequestTimeout + time.Second,
	})
}

// watch returns the sources of the events for the mailbox. Queues are among them if the API server serves them.
func watch(ctx context.Context, p *process, kubePlugins *kube.Plugins) ([]*cluster.Source, error) {
	ours, err := cluster.Watch(p.informers, p.groups, p.mailbox.Event)
	if err != nil {
		return nil, err
	}
	if p.servesQueues, err = cluster.ServesQueues(ctx, p.client); err != nil {
		return nil, err
	}
	if p.servesQueues {
		queues, err := cluster.WatchQueues(p.groups, p.mailbox.Event)
		if err != nil {
			return nil, err
		}
		ours = append(ours, queues...)
	}
	others, err := cluster.WatchOthers(p.informers, p.mailbox.Event)
	all := append(slices.Concat(ours, others, p.foreign.Sources()),
		&cluster.Source{Name: "volumes and devices", HasSynced: kubePlugins.HasSynced},
		&cluster.Source{Name: "configuration", HasSynced: p.live.HasSynced})
	if err != nil || p.leases == nil {
		return all, err
	}
	leases, err := cluster.WatchLeases(p.leases, p.mailbox.Event)
	return append(all, leases...), err
}

// instance names this replica in events: the pod's name inside a cluster.
func instance() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// manager serves health and metrics.
func (o *options) manager(restConfig *rest.Config, p *process) (manager.Manager, error) {
	options := ctrl.Options{
		HealthProbeBindAddress: o.healthAddress,
		PprofBindAddress:       o.pprofAddress,
		Metrics:                o.endpoint(p.documents(), p.certificate),
	}
	mgr, err := ctrl.NewManager(restConfig, options)
	if err != nil {
		return nil, fmt.Errorf("manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("health check: %w", err)
	}
	if err := mgr.AddReadyzCheck("informers", p.ready); err != nil {
		return nil, fmt.Errorf("readiness check: %w", err)
	}
	for _, source := range p.sources { // the handler shows the names of checks that fail, and withholds their errors
		check := func(*http.Request) error { return source.Ready() }
		if err := mgr.AddReadyzCheck(strings.ReplaceAll(source.Name, " ", "-"), check); err != nil {
			return nil, fmt.Errorf("readiness check: %w", err)
		}
	}
	return mgr, nil
}

// ready returns what has not been read yet, and why: a kind that the API server does not serve, or a right that is missing.
func (p *process) ready(*http.Request) error {
	if p.synced.Load() {
		return nil
	}
	var waits []string
	for _, source := range p.sources {
		if err := source.Ready(); err != nil {
			waits = append(waits, err.Error())
		}
	}
	return errors.New("not read yet: " + strings.Join(waits, "; "))
}

// waitInterval is how often a process that is not ready says what it waits for.
const waitInterval = 30 * time.Second

// logWaiting logs what has not been read yet, and why, until all is.
func (p *process) logWaiting(ctx context.Context) {
	_ = wait.PollUntilContextCancel(ctx, waitInterval, false, func(ctx context.Context) (bool, error) { // only the end of ctx makes it fail
		err := p.ready(nil)
		if err != nil {
			klog.FromContext(ctx).Info("Not ready", "reason", err.Error())
		}
		return err == nil, nil
	})
}

// run starts everything and returns when all of it has ended.
func (p *process) run(ctx context.Context, mgr manager.Manager, elected <-chan struct{}) error {
	parts := []manager.RunnableFunc{
		p.loop.Run,
		p.live.Run,
		p.foreign.Run,
		func(ctx context.Context) error { p.driver.Run(ctx); return nil },
		p.watchServer,
		func(ctx context.Context) error { return p.follow(ctx, elected) },
		func(ctx context.Context) error { return p.publish(ctx, elected) },
		func(ctx context.Context) error { return p.desk.Run(ctx, p.loop) },
	}
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("manager: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// haveSynced reports whether all that was there at the start has been delivered.
func (p *process) haveSynced(context.Context) (bool, error) {
	return !slices.ContainsFunc(p.sources, func(source *cluster.Source) bool { return !source.HasSynced() }), nil
}

// checkCRD says clearly what an informer would only log.
func (p *process) checkCRD() error {
	_, err := p.pods.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not know %s: install the CRD from config/crd/bases or the chart",
			v1alpha1.SchemeGroupVersion)
	}
	if err != nil {
		return fmt.Errorf("discovery of %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	return nil
}
