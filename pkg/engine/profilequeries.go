package engine

import (
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// What is asked of plugins and actions outside of sessions. Plugins are made for it once per configuration.

// translator is a plugin that changes what pods request; it is not asked where its point is disabled.
type translator interface {
	framework.Plugin
	model.RequestTranslator
}

// MaxGrace returns how long a pod that the scheduler ends may take at most: what the first GraceLimiter says, and
// model.DefaultMaxGrace without one.
func (p *Profile) MaxGrace() time.Duration {
	for _, action := range p.Actions {
		if limiter, ok := action.(GraceLimiter); ok {
			return limiter.MaxGrace()
		}
	}
	return model.DefaultMaxGrace
}

// Unenforced says why guarantees of queues do not hold with the profile; empty when they do.
func (p *Profile) Unenforced() string {
	switch {
	case p.Paused != "":
		return "the scheduler is paused"
	case len(p.resolvePoints().reclaim) == 0:
		return "no plugin of the configuration says what queues can count on, as proportion does"
	case !slices.ContainsFunc(p.Actions, evictsByClaims):
		return "no action of the configuration evicts pods of other queues, as reclaim does"
	}
	return ""
}

func evictsByClaims(action Action) bool {
	user, is := action.(ClaimUser)
	return is && user.EvictsByClaims()
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

// MeasureCalls makes the plugins that call other processes measure that.
func (p *Profile) MeasureCalls(timer *framework.CallTimer) {
	for _, plugin := range p.resolvePoints().callers {
		plugin.MeasureCalls(timer)
	}
}

// OrdersQueues reports whether a plugin orders queues.
func (p *Profile) OrdersQueues() bool { return len(p.resolvePoints().queueOrder) > 0 }

// EvictsOnCPUConflict reports whether a pod that another one keeps from its isolated CPUs is evicted.
func (p *Profile) EvictsOnCPUConflict() bool {
	filled := p.resolvePoints()
	return slices.ContainsFunc(filled.conflicts, framework.CPUConflictPolicy.EvictsOnConflict)
}
