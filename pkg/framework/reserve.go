package framework

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what sessions know of capacity that is reserved for jobs which have waited for long. Who gets some, and where, is
// for an action to decide.

// ReservationOwner is an action that keeps reservations: it plans them again when they do not help any more, and ends them.
// Without one in the pipeline reservations would never end, so that what an earlier configuration reserved is released.
type ReservationOwner interface {
	Action
	// OwnsReservations does nothing; it tells what the action is for.
	OwnsReservations()
}

// Reserve decides which capacity is kept for the job, in the place of what was kept before; nil keeps none any more. It is in
// force at once.
func (s *Session) Reserve(job *model.Job, reservation *model.Reservation) {
	if reservation == nil {
		reservation = &model.Reservation{}
	}
	s.Snapshot.Reserve(job, reservation)
	s.send(model.Decision{Job: job.Key, Reservation: reservation})
}

// UseReservedUntil shows the job capacity that is reserved for others from the time on at which it will be gone again, in
// seconds since 1970; see model.Viewpoint.EndsBefore. Zero ends that. SelectNode, Feasible, ApplyReservations and statements use
// the job's viewpoint as before.
func (s *Session) UseReservedUntil(job *model.Job, gone int64) {
	if gone == 0 {
		delete(s.borrowers, job.Key)
	} else {
		s.borrowers[job.Key] = gone
	}
	s.ApplyReservations(job)
}

// WakeAt reports that time alone may change an answer of this session at that moment, however little else happens.
func (s *Session) WakeAt(at time.Time) {
	if s.wake.IsZero() || at.Before(s.wake) {
		s.wake = at
	}
	if s.options.Wake != nil {
		s.options.Wake(at)
	}
}

// releaseUnowned ends all reservations when no action keeps them.
func (s *Session) releaseUnowned(actions []Action) {
	for _, action := range actions {
		if _, keeps := action.(ReservationOwner); keeps {
			return
		}
	}
	for _, job := range s.Snapshot.Jobs {
		if job.Reservation != nil {
			s.Reserve(job, nil)
		}
	}
}
