package framework

import (
	"slices"
	"time"

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

// Caller is a plugin that calls other processes.
type Caller interface {
	Plugin
	// MeasureCalls makes the plugin measure its calls, those of all sessions of the configuration. It is called once per
	// configuration, before it decides; calls may be made on any goroutine.
	MeasureCalls(timer *CallTimer)
}

// CallTimer measures calls to other processes. Nothing is decided by what it reads.
type CallTimer struct {
	// Now reads the time, on any goroutine.
	Now func() time.Time
	// Observe receives the process that was called, what was asked, "ok", "error" or "timeout", and how long it took.
	Observe func(callee, verb, result string, took time.Duration)
}

// translator is a plugin that changes what pods request; it is not asked where its point is disabled.
type translator interface {
	Plugin
	model.RequestTranslator
}

// GraceLimiter is an action that says how long pods which the scheduler ends may take at most.
type GraceLimiter interface {
	Action
	// MaxGrace returns that time, at least a second; asked once per configuration.
	MaxGrace() time.Duration
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

// ClaimUser is an action that may evict pods of other queues.
type ClaimUser interface {
	Action
	// EvictsByClaims reports whether it does so, by Claims; asked once per configuration.
	EvictsByClaims() bool
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
func (p *Profile) MeasureCalls(timer *CallTimer) {
	for _, plugin := range p.resolvePoints().callers {
		plugin.MeasureCalls(timer)
	}
}

// OrdersQueues reports whether a plugin orders queues.
func (p *Profile) OrdersQueues() bool { return len(p.resolvePoints().queueOrder) > 0 }

// EvictsOnCPUConflict reports whether a pod that another one keeps from its isolated CPUs is evicted.
func (p *Profile) EvictsOnCPUConflict() bool {
	filled := p.resolvePoints()
	return slices.ContainsFunc(filled.conflicts, CPUConflictPolicy.EvictsOnConflict)
}
