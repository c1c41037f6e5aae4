package framework

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// What is asked of plugins outside of sessions. They are made for it once per configuration.

// PodBinders knows who may be named by a Binder.
type PodBinders interface {
	Plugin
	// PodBinders returns those that may; asked once per configuration, used from many goroutines for as long as it runs.
	PodBinders() []model.PodBinder
}

// ConflictEnder says what becomes of a pod that can never run where it is bound, since another one was given its isolated CPUs
// before: it is evicted, so that its owner may make another, or it is only reported.
type ConflictEnder interface {
	Plugin
	// EndsConflicts tells whether such pods are evicted; asked once per configuration.
	EndsConflicts() bool
}

// translator is a plugin that changes what pods request; it is not asked where its point is disabled.
type translator interface {
	Plugin
	model.RequestTranslator
}

// Translators returns who changes what pods request and nodes offer, in tier order.
func (p *Profile) Translators() []model.RequestTranslator {
	filled := p.slots()
	translators := make([]model.RequestTranslator, len(filled.requests))
	for i, translator := range filled.requests {
		translators[i] = translator
	}
	return translators
}

// PodBinders returns who may bind pods in place of the API server.
func (p *Profile) PodBinders() []model.PodBinder {
	var all []model.PodBinder
	filled := p.slots()
	for _, plugin := range filled.binders {
		all = append(all, plugin.PodBinders()...)
	}
	return all
}

// EndsConflicts tells whether a pod that another one keeps from its isolated CPUs is evicted.
func (p *Profile) EndsConflicts() bool {
	filled := p.slots()
	return slices.ContainsFunc(filled.conflicts, ConflictEnder.EndsConflicts)
}
