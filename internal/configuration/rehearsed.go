package configuration

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/kube"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/plugins/extender"
)

// View is the state that kube-scheduler's plugins read in a rehearsal. One goroutine at a time uses it and what reads it.
type View struct {
	fwk.SharedLister
	kube.Namespaces
}

// Show lets the plugins read another state from now on.
func (v *View) Show(state *cluster.State) { v.SharedLister, v.Namespaces = state.View(), state }

// Rehearsed returns the catalogue for rehearsals over these plugins: as Catalogue, except that extenders are not asked, and agree
// to all.
func Rehearsed(kubePlugins *kube.Plugins, extra ...framework.PluginRegistration) *engine.Registry {
	silent := framework.PluginRegistration{
		Name: extender.Name, Summary: extender.Summary, Arguments: extender.Arguments(),
		New: func(arguments *config.Reader) (framework.Factory, error) {
			extender.ReadArguments(arguments)
			return func() framework.Plugin { return agreeing{} }, nil
		},
	}
	return Catalogue(kubePlugins, append(slices.Clone(extra), silent)...)
}

// agreeing takes the place of extenders, and has nothing against anything.
type agreeing struct{}

func (agreeing) Name() string { return extender.Name }

// WithoutServer returns kube-scheduler's plugins where there is no API server: no request is made, and there are no volumes,
// claims and devices. What it starts ends with the context. Call it once per process.
func WithoutServer(ctx context.Context, lister fwk.SharedLister, namespaces kube.Namespaces) (*kube.Plugins, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return kube.New(ctx, kube.Deps{
		Lister: lister, Namespaces: namespaces, Informers: informers.NewSharedInformerFactory(client, 0), Client: client,
	})
}
