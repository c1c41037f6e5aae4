package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/kubeplugins"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/internal/telemetry"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/generated/clientset/versioned"
	groupinformers "github.com/tutti-sched/tutti/pkg/generated/informers/externalversions"
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
		namespace := o.leaderNamespace
		if namespace == "" && o.kubeconfig != "" {
			namespace = "tutti-system"
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
	mgr, err := o.manager(restConfig, process)
	if err != nil {
		return err
	}
	return election.whileHeld(ctx, func(ctx context.Context, elected <-chan struct{}) error { return process.run(ctx, mgr, elected) })
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
	// live is the configuration, which follows its source.
	live *configuration.Watcher

	// pods reads pods and the like, client PodGroups.
	pods    *kubernetes.Clientset
	client  *versioned.Clientset
	sources []cache.InformerSynced
	synced  atomic.Bool

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
	groupClient, err := versioned.NewForConfig(restConfig)
	if err != nil {
		return nil, fmt.Errorf("PodGroup client: %w", err)
	}
	p := &process{
		informers: informers.NewSharedInformerFactory(client, 0),
		groups:    groupinformers.NewSharedInformerFactory(groupClient, 0),
		mailbox:   scheduler.NewMailbox(),
		pods:      client, client: groupClient, schedulerNames: o.schedulerNames, election: election,
		leases: o.leaseInformers(client),
	}
	writer, err := commit.NewClient(commit.Fenced(commit.ClientConfig(restConfig), election.mayWrite), commit.Reporter{
		Controller: o.schedulerNames[0], Instance: instance(),
	})
	if err != nil {
		return nil, err
	}
	state := cluster.New(cluster.Options{SchedulerNames: o.schedulerNames, Dimensions: model.NewDimensions(), AgentLeases: p.leases != nil})
	preparing, err := kubernetes.NewForConfig(prepareConfig(readConfig, election.mayWrite))
	if err != nil {
		return nil, fmt.Errorf("client for volumes and claims: %w", err)
	}
	replica := cluster.NewReplica()
	kube, asked, err := p.openKube(ctx, state, replica, preparing)
	if err != nil {
		return nil, err
	}
	profile, err := o.configure(ctx, p, kube, asked, client, writer)
	if err != nil {
		return nil, err
	}
	kube.Freeze()
	asked.Freeze()
	state.Translate(profile.Translators())
	writer.UseBinders(profile.PodBinders())
	measured, err := telemetry.New(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if p.sources, err = watch(p, kube.HasSynced, asked.HasSynced, p.live.HasSynced); err != nil {
		return nil, err
	}
	machine := o.wireCommit(p, writer, kube)
	p.loop = scheduler.New(state, machine, profile, p.driver, p.mailbox, scheduler.Options{
		Clock: clock.RealClock{}, Period: o.schedulePeriod, Verify: os.Getenv("TUTTI_VERIFY") == "1", Metrics: measured,
		Reservations: kube, BindDeadline: o.bindDeadline, Follow: replica.Follow,
	})
	return p, nil
}

// openKube builds kube-scheduler's plugins, of what the API server serves and lets be read: those of the loop, and those that are
// asked about copies of the cluster.
func (p *process) openKube(
	ctx context.Context, state *cluster.State, replica *cluster.Replica, preparing kubernetes.Interface,
) (kube, asked *kubeplugins.Plugins, err error) {
	taintRules, err := kubeplugins.ServesDeviceTaintRules(ctx, p.pods)
	if err != nil {
		return nil, nil, err
	}
	kube, err = kubeplugins.New(ctx, kubeplugins.Deps{
		Lister: state.View(), Informers: p.informers, Client: preparing, Namespaces: state,
		NoDeviceTaintRules: !taintRules,
	})
	if err != nil {
		return nil, nil, err
	}
	// The informer may tell the loop of a claim or a device before the plugins know it.
	kube.OnDevices(func() { p.mailbox.Event(cluster.Event{Kind: cluster.KindOther}) })
	asked, err = kube.Another(replica, replica)
	return kube, asked, err
}

// leaseInformers returns the factory for the Leases of agents, nil when they are not looked at.
func (o *options) leaseInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	if o.leaseNamespace == "" {
		return nil
	}
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(o.leaseNamespace))
}

// wireCommit makes what decides about writes, and what carries them out.
func (o *options) wireCommit(p *process, writer *commit.Client, preparer commit.Preparer) *commit.Machine {
	p.driver = commit.NewDriver(writer, commit.DriverOptions{
		Workers: o.bindWorkers, Backlog: 3 * o.bindWorkers, Preparer: preparer, Timeout: lease.RequestTimeout, MayWrite: p.election.mayWrite,
	}, p.mailbox.Reply)
	return commit.New(commit.Options{
		Workers: 4 * o.bindWorkers, BindDeadline: o.bindDeadline, RequestTimeout: lease.RequestTimeout + time.Second,
	})
}

// watch returns the sources of the events for the mailbox, and more.
func watch(p *process, more ...cache.InformerSynced) ([]cache.InformerSynced, error) {
	ours, err := cluster.Watch(p.informers, p.groups, p.mailbox.Event)
	if err != nil {
		return nil, err
	}
	others, err := cluster.WatchOthers(p.informers, p.mailbox.Event)
	all := slices.Concat(ours, others, more)
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
		Metrics:                o.endpoint(p.documents()),
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
	return mgr, nil
}

func (p *process) ready(*http.Request) error {
	if !p.synced.Load() {
		return errors.New("informers are not synced yet")
	}
	return nil
}

// run starts everything and returns when all of it has ended.
func (p *process) run(ctx context.Context, mgr manager.Manager, elected <-chan struct{}) error {
	parts := []manager.RunnableFunc{
		p.loop.Run,
		p.live.Run,
		func(ctx context.Context) error { p.driver.Run(ctx); return nil },
		func(ctx context.Context) error { return p.follow(ctx, elected) },
	}
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return fmt.Errorf("manager: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// follow starts the informers, and tells the loop to lead once all that was there at the start has been delivered and
// this replica is elected.
func (p *process) follow(ctx context.Context, elected <-chan struct{}) error {
	read := make(chan struct{})
	go tuneGC(ctx, read)
	p.informers.Start(ctx.Done())
	p.groups.Start(ctx.Done())
	if p.leases != nil {
		p.leases.Start(ctx.Done())
		defer p.leases.Shutdown()
	}
	defer p.informers.Shutdown()
	defer p.groups.Shutdown()
	if wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, p.haveSynced) != nil {
		return nil // only the end of ctx ends it
	}
	p.synced.Store(true)
	klog.FromContext(ctx).Info("Informers are synced")
	close(read)
	select {
	case <-elected:
		inherited, err := p.waitForTakeover(ctx)
		if err == nil {
			p.mailbox.Lead()
			p.forget(ctx, inherited)
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// waitForTakeover returns when this process may decide: when nothing of the last leader can be under way any more, and all
// that it may have written is known, which it returns. Only the end of ctx makes it fail.
func (p *process) waitForTakeover(ctx context.Context) (read *cluster.Inherited, err error) {
	if p.election == nil {
		return nil, nil
	}
	log := klog.FromContext(ctx)
	pause, inherited := p.election.TakeOver()
	if pause > 0 {
		log.Info("The last leader's Lease has expired: waiting for what it may have sent", "pause", pause)
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if !inherited {
		return nil, nil
	}
	err = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		read, err = cluster.ListFromQuorum(ctx, p.pods, p.client, p.schedulerNames, p.mailbox.Event)
		if err != nil {
			log.Info("Reading what the last leader wrote has failed", "reason", err.Error())
		}
		return err == nil, nil
	})
	return read, err
}

// forget deletes what was read past the informers and is gone, once they have come as far; they are heard of at least once a
// minute.
func (p *process) forget(ctx context.Context, read *cluster.Inherited) {
	if read == nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, 5*time.Second, false, func(context.Context) (bool, error) { // only the end of ctx makes it fail
		gone, done := read.Gone(p.informers, p.groups)
		for _, event := range gone {
			p.mailbox.Event(event)
		}
		return done, nil
	})
}

// haveSynced reports whether all that was there at the start has been delivered.
func (p *process) haveSynced(context.Context) (bool, error) {
	return !slices.ContainsFunc(p.sources, func(synced cache.InformerSynced) bool { return !synced() }), nil
}

// checkCRD says clearly what an informer would only log.
func (p *process) checkCRD() error {
	_, err := p.client.Discovery().ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not know %s: install the CRD from config/crd/bases or the chart",
			v1alpha1.SchemeGroupVersion)
	}
	if err != nil {
		return fmt.Errorf("discovery of %s: %w", v1alpha1.SchemeGroupVersion, err)
	}
	return nil
}
