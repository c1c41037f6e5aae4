package simulation

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// Filters are kube-scheduler's own plugins, which take long to make and so serve one simulation after the other. What they read
// besides pods and nodes never changes. One goroutine owns them and the simulations that use them.
type Filters struct {
	kube   *kube.Plugins
	lister *switchableLister
	stop   func()
}

// switchableLister is a lister whose view is replaced: that of the process that is at work.
type switchableLister struct{ fwk.SharedLister }

// The namespaces in which simulated pods are.
const (
	firstNamespace  = "a"
	secondNamespace = "b"
)

// OpenFilters makes the plugins. Close ends what they have begun.
func OpenFilters() (*Filters, error) {
	ctx, cancel := context.WithCancel(context.Background())
	client := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: firstNamespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: secondNamespace}},
	)
	factory := informers.NewSharedInformerFactory(client, 0)
	stop := func() {
		cancel()
		factory.Shutdown()
	}
	lister := &switchableLister{SharedLister: cluster.New(cluster.Options{}).View()}
	kubePlugins, err := kube.New(ctx, kube.Deps{Lister: lister, Informers: factory, Client: client})
	if err != nil {
		stop()
		return nil, fmt.Errorf("kube-scheduler's plugins: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), kubePlugins.HasSynced) {
		stop()
		return nil, errors.New("kube-scheduler's plugins did not sync")
	}
	return &Filters{kube: kubePlugins, lister: lister, stop: stop}, nil
}

// Close ends what OpenFilters began.
func (f *Filters) Close() { f.stop() }

// build makes a profile of a configuration. The text is one of the simulation's own, so that an error is a bug of it.
func (f *Filters) build(text []byte) (*engine.Profile, error) { return f.buildWith(f.kube, text) }

// buildWith does so with other plugins of kube-scheduler's.
func (f *Filters) buildWith(kube plugins.Kube, text []byte) (*engine.Profile, error) {
	catalogue := engine.Registry{Actions: actions.BuiltIn(), Plugins: plugins.BuiltIn(kube)}
	configuration, _, err := config.Decode("simulation", text, catalogue.Names())
	if err != nil {
		return nil, err
	}
	return catalogue.Build(configuration)
}
