package framework

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// What is asked of plugins outside of sessions. They are made for it once per configuration.

// PodBinderProvider knows which plugins a Binder may name.
type PodBinderProvider interface {
	Plugin
	// PodBinders returns those that may. It is called once per configuration; many goroutines use what it returns.
	PodBinders() []model.PodBinder
}

// CPUConflictPolicy says what becomes of a pod that can never run where it is bound, since another one was given its isolated
// CPUs before: it is evicted, so that its owner may make another, or it is only reported.
type CPUConflictPolicy interface {
	Plugin
	// EvictsOnConflict reports whether such pods are evicted; asked once per configuration.
	EvictsOnConflict() bool
}

// translator is a plugin that changes what pods request; it is not asked where its point is disabled.
type translator interface {
	Plugin
	model.RequestTranslator
}

// Translators returns the plugins that change what pods request and nodes offer, in tier order.
func (p *Profile) Translators() []model.RequestTranslator {
	filled := p.resolvePoints()
	translators := make([]model.RequestTranslator, len(filled.requests))
	for i, translator := range filled.requests {
		translators[i] = translator
	}
	return translators
}

// PodBinders returns the plugins that may bind pods in place of the API server.
func (p *Profile) PodBinders() []model.PodBinder {
	var all []model.PodBinder
	filled := p.resolvePoints()
	for _, plugin := range filled.binders {
		all = append(all, plugin.PodBinders()...)
	}
	return all
}

// EvictsOnCPUConflict reports whether a pod that another one keeps from its isolated CPUs is evicted.
func (p *Profile) EvictsOnCPUConflict() bool {
	filled := p.resolvePoints()
	return slices.ContainsFunc(filled.conflicts, CPUConflictPolicy.EvictsOnConflict)
}
