package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/cluster/kubeframework"
	"github.com/tutti-sched/tutti/pkg/commit"
	"github.com/tutti-sched/tutti/pkg/generated/clientset/versioned"
	groupinformers "github.com/tutti-sched/tutti/pkg/generated/informers/externalversions"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/scheduler"
)

// run wires the scheduler and runs it until the context ends.
func (o *options) run(ctx context.Context, out io.Writer) error {
	ctrl.SetLogger(klog.Background())
	if o.explainConfig {
		return explain(ctx, o.config, out)
	}
	restConfig, err := o.restConfig()
	if err != nil {
		return err
	}
	process, err := o.wire(ctx, restConfig)
	if err != nil {
		return err
	}
	mgr, err := o.manager(restConfig, process)
	if err != nil {
		return err
	}
	return process.run(ctx, mgr)
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

	client  *versioned.Clientset
	sources []cache.InformerSynced
	synced  atomic.Bool
}

// wire makes the parts and joins them; nothing runs yet and nothing is asked of the API server.
func (o *options) wire(ctx context.Context, restConfig *rest.Config) (*process, error) {
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
	writer, err := commit.NewClient(commit.ClientConfig(restConfig), commit.Reporter{
		Controller: o.schedulerNames[0], Instance: instance(),
	})
	if err != nil {
		return nil, err
	}
	p := &process{
		informers: informers.NewSharedInformerFactory(client, 0),
		groups:    groupinformers.NewSharedInformerFactory(groupClient, 0),
		mailbox:   scheduler.NewMailbox(),
		client:    groupClient,
		leases:    o.leaseInformers(client),
	}
	state := cluster.New(cluster.Options{SchedulerNames: o.schedulerNames, Dimensions: model.NewDimensions(), AgentLeases: p.leases != nil})
	preparing, err := kubernetes.NewForConfig(prepareConfig(readConfig))
	if err != nil {
		return nil, fmt.Errorf("client for volumes and claims: %w", err)
	}
	kube, err := kubeframework.New(ctx, kubeframework.Deps{
		Lister: state.View(), Informers: p.informers, Client: preparing,
	})
	if err != nil {
		return nil, err
	}
	// The informer may tell the loop of a claim before the plugins know it.
	kube.OnClaims(func() { p.mailbox.Event(cluster.Event{Kind: cluster.KindOther}) })
	profile, err := loadProfile(ctx, o.config, kube)
	if err != nil {
		return nil, err
	}
	state.Translate(profile.Translators())
	writer.UseBinders(profile.PodBinders())
	measured, err := scheduler.NewMetrics(metrics.Registry)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if p.sources, err = watch(p, kube.HasSynced); err != nil {
		return nil, err
	}
	p.driver = commit.NewDriver(writer, commit.DriverOptions{
		Workers: o.bindWorkers, Backlog: 3 * o.bindWorkers, Preparer: kube,
	}, p.mailbox.Reply)
	machine := commit.New(commit.Options{Workers: 4 * o.bindWorkers, BindDeadline: o.bindDeadline})
	p.loop = scheduler.New(state, machine, profile, p.driver, p.mailbox, scheduler.Options{
		Clock: clock.RealClock{}, Period: o.schedulePeriod, Verify: os.Getenv("TUTTI_VERIFY") == "1", Metrics: measured,
		Reservations: kube,
	})
	return p, nil
}

// leaseInformers returns the factory for the Leases of agents, nil when they are not looked at.
func (o *options) leaseInformers(client kubernetes.Interface) informers.SharedInformerFactory {
	if o.leaseNamespace == "" {
		return nil
	}
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(o.leaseNamespace))
}

// preparers is how many requests about volumes and claims are under way at most, however many pods are being prepared: those
// mostly wait for others.
const preparers = 32

// prepareTimeout bounds one of them, from the moment it has its place, so that one without an answer does not keep it. What it
// waited for the place is no fault of the API server, and must not fail a gang with many volumes.
const prepareTimeout = 30 * time.Second

// prepareConfig returns the configuration of the client that writes about volumes and claims: no throttle, but few at once.
func prepareConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.UserAgent = rest.DefaultKubernetesUserAgent() + "/prepare"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &fewAtOnce{next: next, slots: make(chan struct{}, preparers)}
	})
	return config
}

// fewAtOnce lets requests wait until there is a slot.
type fewAtOnce struct {
	next  http.RoundTripper
	slots chan struct{}
}

// RoundTrip carries out a request.
func (f *fewAtOnce) RoundTrip(request *http.Request) (*http.Response, error) {
	select {
	case f.slots <- struct{}{}:
	case <-request.Context().Done():
		return nil, request.Context().Err()
	}
	defer func() { <-f.slots }()
	ctx, cancel := context.WithTimeout(request.Context(), prepareTimeout)
	response, err := f.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, end: cancel}
	return response, nil
}

// boundedBody is an answer that is read under a context of its own, which ends with it.
type boundedBody struct {
	io.ReadCloser
	end context.CancelFunc
}

// Close ends the reading.
func (b *boundedBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// watch returns the sources of what the mailbox is told of, and one more.
func watch(p *process, more cache.InformerSynced) ([]cache.InformerSynced, error) {
	ours, err := cluster.Watch(p.informers, p.groups, p.mailbox.Event)
	if err != nil {
		return nil, err
	}
	others, err := cluster.WatchOthers(p.informers, p.mailbox.Event)
	all := append(slices.Concat(ours, others), more)
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

// manager serves health and metrics and holds the Lease.
func (o *options) manager(restConfig *rest.Config, p *process) (manager.Manager, error) {
	namespace := o.leaderNamespace
	if namespace == "" && o.kubeconfig != "" {
		namespace = "tutti-system"
	}
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		LeaderElection:          o.leaderElect,
		LeaderElectionID:        "tutti-scheduler",
		LeaderElectionNamespace: namespace,
		// The manager gives the Lease up after all that runs has ended, requests under way included.
		LeaderElectionReleaseOnCancel: true,
		HealthProbeBindAddress:        o.healthAddress,
		PprofBindAddress:              o.pprofAddress,
		Metrics:                       server.Options{BindAddress: o.metricsAddress},
	})
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
func (p *process) run(ctx context.Context, mgr manager.Manager) error {
	if err := p.checkCRD(); err != nil {
		return err
	}
	everywhere := []func(context.Context) error{
		p.loop.Run,
		func(ctx context.Context) error { p.driver.Run(ctx); return nil },
		func(ctx context.Context) error { return p.follow(ctx, mgr.Elected()) },
	}
	for _, part := range everywhere {
		if err := mgr.Add(onEveryReplica(part)); err != nil {
			return fmt.Errorf("manager: %w", err)
		}
	}
	return mgr.Start(ctx)
}

// follow starts the informers, and tells the loop to lead once all that was there at the start has been delivered and
// this replica is elected.
func (p *process) follow(ctx context.Context, elected <-chan struct{}) error {
	read := make(chan struct{})
	go tendMemory(ctx, read)
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
		p.mailbox.Lead()
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// haveSynced tells whether all that was there at the start has been delivered.
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

// onEveryReplica is a part that also runs without the Lease.
type onEveryReplica func(context.Context) error

var _ manager.LeaderElectionRunnable = onEveryReplica(nil)

// Start runs the part.
func (f onEveryReplica) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection returns false.
func (onEveryReplica) NeedLeaderElection() bool { return false }
