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
	// LimitReservations ends, by Session.Reserve, what is reserved beyond the limits of the configuration: another configuration may
	// have allowed it, or another client may have written the status that it was read from. It is called on the session's goroutine
	// before the first action, so that no action respects what is beyond the limits, and calls Session.KeepHeadroom.
	LimitReservations(session *Session)
}

// Reserve decides which capacity is kept for the job, in the place of what was kept before; nil keeps none any more, and
// model.GivenUp records besides that it was given up. It is in force immediately.
func (s *Session) Reserve(job *model.Job, reservation *model.Reservation) {
	if reservation == nil {
		reservation = &model.Reservation{}
	}
	if before, _ := s.Reservation(job); before == nil || !before.Since.Equal(reservation.Since) {
		delete(s.overstayed, job.Key) // other capacity has no guests yet
	}
	s.reserved[job.Key] = reservation
	s.Snapshot.Reserve(job, reservation)
	s.send(model.Decision{Job: job.Key, Reservation: reservation})
}

// Reservation returns what is reserved for the job, as it was decided last, nil when nothing is, and when the job gave up its
// last reservation, zero when it did not.
func (s *Session) Reservation(job *model.Job) (held *model.Reservation, gaveUp time.Time) {
	if decided := s.reserved[job.Key]; decided != nil {
		return decided.Split()
	}
	return job.Reservation, job.GaveUp
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

// WaitUntil is WakeAt for an answer about a job that is not kept, since it is another one at that moment.
func (s *Session) WaitUntil(at time.Time) {
	s.narrow(ForNow)
	s.WakeAt(at)
}

// limitReservations ends what is reserved beyond the limits, and all of it when no action keeps reservations; headroom, too.
func (s *Session) limitReservations(actions []Action) {
	for _, action := range actions {
		if owner, keeps := action.(ReservationOwner); keeps {
			owner.LimitReservations(s)
			return
		}
	}
	for _, job := range s.Snapshot.Jobs {
		if job.Reservation != nil {
			s.Reserve(job, nil)
		}
	}
	s.KeepHeadroom(nil)
}

// ApplyReservations makes the accounting of all nodes show the capacity that the job may use: what is kept for others of its
// priority or above, or of other queues, is taken, and for a job for which no pod may be evicted all that is nominated to
// others. But nothing that is only reserved is kept from a job of another queue within its guarantee. And nothing that is only
// reserved is kept from a gang that has begun and is below its minimum: the job that has it reserved may wait for the end of
// that gang, which does not come without the members it lacks. A gang that has lost members is such a one only if those that
// it has were there before: others may have come by borrowing, and borrow again. SelectNode, Feasible and statements do so for
// the task's job; a caller that reads the accounting of nodes calls it first.
func (s *Session) ApplyReservations(job *model.Job) {
	if len(s.Snapshot.Held()) > 0 {
		s.Snapshot.SetViewpoint(s.viewer(job))
	}
}

func (s *Session) viewer(job *model.Job) model.Viewpoint {
	viewer := s.Snapshot.ViewpointOf(job)
	viewer.EndsBefore = s.borrowers[job.Key]
	if s.precedesAll(job) {
		viewer.EndsBefore = model.UnrestrictedViewpoint
	}
	if len(s.Snapshot.Queues) > 0 && len(s.slots.reclaim) > 0 && s.Snapshot.ReservesOutside(viewer.Queue) {
		viewer.Guaranteed = s.slots.reclaim[0].GuaranteeFor(job)
	}
	return viewer
}

// precedesAll reports whether nothing that is only kept free is kept from the job.
func (s *Session) precedesAll(job *model.Job) bool {
	return s.borrowers[job.Key] == 0 && s.completes(job) && (!job.LostMembers || s.precedesReservations(job))
}

// Respects reports whether what is reserved for the holder is kept from the job.
func (s *Session) Respects(job, holder *model.Job) bool {
	hold := model.HeldCapacity{Job: holder.Key, Queue: holder.InQueue(), Priority: holder.Priority}
	return hold.AppliesTo(s.viewer(job))
}
