package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/cluster/kubeframework"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// loadProfile reads the configuration file, or the built-in one when there is none, and builds what it asks for.
func loadProfile(ctx context.Context, file string, kube plugins.Kube) (*framework.Profile, error) {
	catalogue := &framework.Catalogue{Actions: actions.BuiltIn(), Plugins: plugins.BuiltIn(kube)}
	configuration, err := decode(ctx, file, catalogue.Known())
	if err != nil {
		return nil, err
	}
	return catalogue.Build(configuration)
}

func decode(ctx context.Context, file string, known config.Known) (*config.Configuration, error) {
	if file == "" {
		return config.Default(known)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	configuration, warnings, err := config.Decode(file, data, known)
	for _, warning := range warnings {
		klog.FromContext(ctx).Info("Configuration", "warning", warning.String())
	}
	return configuration, err
}

// explain prints the profile. It builds everything a scheduler is built of, but starts nothing.
func explain(ctx context.Context, file string, out io.Writer) error {
	client, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	state := cluster.New(cluster.Options{Dimensions: model.NewDimensions()})
	kube, err := kubeframework.New(ctx, kubeframework.Deps{
		Lister: state.View(), Informers: informers.NewSharedInformerFactory(client, 0), Client: client,
	})
	if err != nil {
		return err
	}
	profile, err := loadProfile(ctx, file, kube)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, profile.Explain())
	return err
}
