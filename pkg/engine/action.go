package engine

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// What actions implement.

// Action is one step of the pipeline.
type Action interface {
	// Name is the action's name in the configuration.
	Name() string
	// Execute works on the session; what it decides leaves through Session.Try, what it refuses through Session.Refuse.
	Execute(session *Session)
}

// Preemptor is an action that evicts pods for jobs that were refused.
type Preemptor interface {
	Action
	// MayPreempt reports whether there are pods to evict for a job that was refused. It is called by actions that come before.
	MayPreempt(session *Session, job *model.Job) bool
}

// Resumer is an action that takes part when the pipeline runs once more for deferred jobs; see Session.Defer.
type Resumer interface {
	Action
	// Resume does for the deferred jobs, and for what follows from them, what Execute does for all.
	Resume(session *Session, deferred []*model.Job)
}

// GraceLimiter is an action that says how long pods which the scheduler ends may take at most.
type GraceLimiter interface {
	Action
	// MaxGrace returns that time, at least a second; asked once per configuration.
	MaxGrace() time.Duration
}

// ClaimUser is an action that may evict pods of other queues.
type ClaimUser interface {
	Action
	// EvictsByClaims reports whether it does so, by Claims; asked once per configuration.
	EvictsByClaims() bool
}

// ReservationOwner is an action that keeps reservations: it plans them again when they no longer help, and ends them.
// Without one in the pipeline reservations would never end, so that what an earlier configuration reserved is released.
type ReservationOwner interface {
	Action
	// LimitReservations ends, by Session.Reserve, what is reserved beyond the limits of the configuration: another configuration may
	// have allowed it, or another client may have written the status that it was read from. It is called on the session's goroutine
	// before the first action, so that no action respects what is beyond the limits, and calls Session.KeepHeadroom.
	LimitReservations(session *Session)
}
