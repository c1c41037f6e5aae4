// Package plugins lists the built-in plugins. It contains no logic: each plugin is a package of its own.
package plugins

import (
	"errors"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/plugins/conformance"
	"github.com/tutti-sched/tutti/pkg/plugins/drf"
	"github.com/tutti-sched/tutti/pkg/plugins/extender"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/plugins/isolcpu"
	"github.com/tutti-sched/tutti/pkg/plugins/nodeorder"
	"github.com/tutti-sched/tutti/pkg/plugins/predicates"
	"github.com/tutti-sched/tutti/pkg/plugins/priority"
	"github.com/tutti-sched/tutti/pkg/plugins/proportion"
	whole "github.com/tutti-sched/tutti/pkg/plugins/topology"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// Kube is what all plugins together need of kube-scheduler's.
type Kube interface {
	predicates.Kube
	nodeorder.Kube
	topology.Namespaces
}

// BuiltIn returns every plugin a configuration may name. A nil factory stands for invalid arguments. All of them share one
// topology index, also those of a later configuration.
func BuiltIn(kube Kube) []framework.PluginRegistration {
	index := topology.New(kube)
	return []framework.PluginRegistration{
		{Name: priority.Name, Summary: priority.Summary, New: plain(priority.New)},
		{Name: gang.Name, Summary: gang.Summary, New: plain(gang.New)},
		{Name: conformance.Name, Summary: conformance.Summary, New: plain(conformance.New)},
		{
			Name: predicates.Name, Summary: predicates.Summary, Arguments: predicates.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				predicates.Arguments().Read(arguments)
				return predicates.New(kube, index)
			},
		},
		{
			Name: nodeorder.Name, Summary: nodeorder.Summary, Arguments: nodeorder.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				factory, err := nodeorder.New(kube, index, nodeorder.ReadWeights(arguments))
				if errors.Is(err, nodeorder.ErrRestart) {
					nodeorder.RefuseUntilRestart(arguments)
					return nil, nil
				}
				return factory, err
			},
		},
		{
			Name: isolcpu.Name, Summary: isolcpu.Summary, Arguments: isolcpu.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				return isolcpu.New(isolcpu.ReadOptions(arguments)), nil
			},
		},
		{
			Name: whole.Name, Summary: whole.Summary, Arguments: whole.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				return whole.New(whole.ReadWeight(arguments)), nil
			},
		},
		{Name: proportion.Name, Summary: proportion.Summary, New: plain(proportion.New)},
		{
			Name: drf.Name, Summary: drf.Summary, Arguments: drf.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				return drf.New(drf.ReadLabel(arguments)), nil
			},
		},
		{
			Name: extender.Name, Summary: extender.Summary, Arguments: extender.Arguments(),
			New: func(arguments *config.Reader) (framework.Factory, error) {
				return extender.New(extender.ReadArguments(arguments))
			},
		},
	}
}

// plain is for a plugin that takes no arguments.
func plain(factory framework.Factory) func(*config.Reader) (framework.Factory, error) {
	return func(*config.Reader) (framework.Factory, error) { return factory, nil }
}
