// Package configuration is the scheduler's configuration as operators meet it: it explains what may be said, checks a file without a
// cluster, and, in a running scheduler, follows the ConfigMap or file that it comes from.
//
//	ConfigMap or file ──text──► Live ──profile──► loop, between two cycles
//	                              ├── refused: event, log line, metric; the last good one is kept
//	                              └── Report: which version is active, since when, and what was refused
//
// It knows no action and no plugin: the catalogue has them, and what it says about their arguments is what these declare (see
// pkg/argument). The grammar is apis/config's. It decides nothing about scheduling, and never swaps a profile itself: it hands one
// over when the loop asks.
package configuration

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/kubeplugins"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// Catalogue returns every action and plugin of this build. With nil it can be explained, and nothing can be made of it.
func Catalogue(kube plugins.Kube) *framework.Registry {
	return &framework.Registry{Actions: actions.BuiltIn(), Plugins: plugins.BuiltIn(kube)}
}

// Offline returns a catalogue of which everything can be made, and nothing run: nobody is asked for anything. What it starts ends
// with the context. Call it once per process.
func Offline(ctx context.Context) (*framework.Registry, error) {
	client, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	state := cluster.New(cluster.Options{Dimensions: model.NewDimensions()})
	kube, err := kubeplugins.New(ctx, kubeplugins.Deps{
		Lister: state.View(), Informers: informers.NewSharedInformerFactory(client, 0), Client: client,
	})
	if err != nil {
		return nil, err
	}
	return Catalogue(kube), nil
}

// Lint reads a configuration as a scheduler would at its start, and returns everything that is wrong with it, by line (see
// config.Errors), nil when nothing is. Warnings are about what works and should be written differently, and about what cannot be
// known away from the scheduler, such as whether a file that the configuration names is there. It asks no API server. Call it once
// per process.
func Lint(ctx context.Context, file string, data []byte) ([]config.Warning, error) {
	catalogue, err := Offline(ctx)
	if err != nil {
		return nil, err
	}
	return lint(catalogue, file, data)
}

func lint(catalogue *framework.Registry, file string, data []byte) ([]config.Warning, error) {
	_, warnings, err := catalogue.Read(file, data)
	var wrong []error
	for _, found := range config.Errors(err) {
		if found.Cause != nil {
			warnings = append(warnings, config.Warning{Position: found.Position, Text: "cannot be known here: " + found.Text})
			continue
		}
		wrong = append(wrong, found)
	}
	return warnings, errors.Join(wrong...)
}
