// Package configuration is the scheduler's configuration: it explains actions, plugins and arguments, checks a file without a
// cluster, and, in a running scheduler, watches the ConfigMaps or the file that it comes from.
//
//	ConfigMaps or file ──text──► Watcher ──profile──► loop, between two cycles
//	                              ├── refused: event, log line, metric; the last good one is kept
//	                              └── Report: which version is active, since when, and what was refused
//
// The files, in reading order:
//
//	source.go, watch.go    where a version comes from, and how a newer one is noticed
//	live.go                the version that decides, and those that are refused
//	lastgood.go            the last good version, kept for the next process
//	tell.go                events about versions
//	explain.go, page.go    the documentation of actions, plugins and arguments
//	rehearsed.go           the catalogue of rehearsals, with a cluster and without
//
// It knows no action and no plugin: the registry has them, and they declare their arguments (see pkg/argument). apis/config
// defines the syntax. It decides nothing about scheduling, and never swaps a profile itself: it returns one when the loop
// asks.
package configuration

import (
	"context"
	"errors"
	"slices"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/pkg/actions"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins"
)

// Catalogue returns the registry of every action and plugin of this build: the built-in ones and the extra plugins, which
// take the place of built-in ones of their names. With a nil kube the built-in ones can be explained, but not created.
func Catalogue(kubePlugins plugins.Kube, extra ...framework.PluginRegistration) *engine.Registry {
	builtIn := slices.DeleteFunc(plugins.BuiltIn(kubePlugins), func(plugin framework.PluginRegistration) bool {
		return slices.ContainsFunc(extra, func(other framework.PluginRegistration) bool { return other.Name == plugin.Name })
	})
	return &engine.Registry{Actions: actions.BuiltIn(), Plugins: append(builtIn, extra...)}
}

// Offline returns a registry from which everything can be created but nothing run: no request is made. What it starts ends
// with the context. Call it once per process.
func Offline(ctx context.Context, extra ...framework.PluginRegistration) (*engine.Registry, error) {
	kubePlugins, err := WithoutServer(ctx, cluster.New(cluster.Options{Dimensions: model.NewDimensions()}).View(), nil)
	if err != nil {
		return nil, err
	}
	return Catalogue(kubePlugins, extra...), nil
}

// Lint reads a configuration as a scheduler with that catalogue, of Offline, would at its start, and returns all errors with
// their lines (see config.Errors), nil when there is none. Warnings are about what works and should be written differently, and
// about what cannot be checked offline, such as whether a file that the configuration names exists. It makes no request to an
// API server.
func Lint(catalogue *engine.Registry, file string, data []byte) ([]config.Warning, error) {
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
