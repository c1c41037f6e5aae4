package framework

import (
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
