package engine

import (
	"time"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what sessions know of capacity that is reserved for jobs which have waited for long. Who gets some, and where, is
// for an action to decide.

// reservations is what the session knows of reserved capacity.
type reservations struct {
	// made is what the session has decided.
	made map[model.JobKey]*model.Reservation
	// overstayed are the jobs that may be evicted for a holder of a reservation of the same priority, by the holder.
	overstayed map[model.JobKey][]*model.Job
	// since is since when the oldest reservation has been there, in seconds since 1970; zero without one.
	since int64
}

// Reserve decides which capacity is kept for the job, in the place of what was kept before; nil keeps none any more, and
// model.GivenUp records besides that it was given up. It is in force immediately.
func (s *Session) Reserve(job *model.Job, reservation *model.Reservation) {
	if reservation == nil {
		reservation = &model.Reservation{}
	}
	if before, _ := s.Reservation(job); before == nil || !before.Since.Equal(reservation.Since) {
		delete(s.reservations.overstayed, job.Key) // other capacity has no guests yet
	}
	s.reservations.made[job.Key] = reservation
	s.Snapshot.Reserve(job, reservation)
	s.send(model.Decision{Job: job.Key, Reservation: reservation})
}

// Reservation returns what is reserved for the job, as it was decided last, nil when nothing is, and when the job gave up its
// last reservation, zero when it did not.
func (s *Session) Reservation(job *model.Job) (held *model.Reservation, gaveUp time.Time) {
	if decided := s.reservations.made[job.Key]; decided != nil {
		return decided.Split()
	}
	return job.Reservation, job.GaveUp
}

// TakeReserved calls the function, which looks for capacity for the job and reports whether it was found, with the question in
// which the job sees capacity that is reserved for jobs of other queues and gives way to it, and pods may be evicted for it.
// Reservations of which it has used capacity then have given way.
func (a Ask) TakeReserved(find func(Ask) bool) (found bool) {
	s := a.session
	if !s.Snapshot.ReservesOutside(a.Job.InQueue()) {
		return find(a)
	}
	holders := s.givingWayTo(a.Job)
	before := make([][]model.Resources, len(holders))
	taking := a.As
	taking.Takes = true
	for i, holder := range holders {
		held, _ := s.Reservation(holder)
		before[i] = s.present(held)
		taking.GivesWay += holder.Key.String() + "\n"
	}
	found = find(a.Supposing(taking))
	for i, holder := range holders {
		if found {
			s.noteGivenWay(holder, before[i])
		}
	}
	return found
}

// GivesWay reports whether what is reserved for a job gives way to a job of another queue.
func (s *Session) GivesWay(holder, job *model.Job) bool {
	held, _ := s.Reservation(holder)
	return held != nil && held.GivesWay() && len(s.slots.reclaim) > 0 && s.Snapshot.CrossesQueues(holder, job) &&
		s.slots.reclaim[0].GivesWay(holder, job)
}

func (s *Session) givingWayTo(job *model.Job) (holders []*model.Job) {
	asked := map[model.JobKey]bool{}
	for i := range s.Snapshot.Held() {
		hold := &s.Snapshot.Held()[i]
		if !hold.Reserved() || asked[hold.Job] {
			continue
		}
		asked[hold.Job] = true
		if holder := s.Snapshot.Job(hold.Job); holder != nil && s.GivesWay(holder, job) {
			holders = append(holders, holder)
		}
	}
	return holders
}

// present returns, by node of a reservation, the part of what is reserved there that is idle, or being released.
func (s *Session) present(held *model.Reservation) (present []model.Resources) {
	for _, reserved := range held.Nodes {
		part := reserved.Request.Clone()
		for r := range part {
			if node := s.Snapshot.Node(reserved.Node); node != nil {
				part[r] = min(part[r], node.Unnominated(r))
			}
		}
		present = append(present, part)
	}
	return present
}

// noteGivenWay writes down in the holder's reservation that it gave way, unless it has by then, or has all that it had.
func (s *Session) noteGivenWay(holder *model.Job, before []model.Resources) {
	held, _ := s.Reservation(holder)
	if held == nil || !held.GaveWay.IsZero() {
		return
	}
	for i, now := range s.present(held) {
		for r := range now {
			if now[r] < before[i][r] {
				gaveWay := *held
				gaveWay.GaveWay = s.Snapshot.Now.UTC().Truncate(time.Second)
				s.Reserve(holder, &gaveWay)
				return
			}
		}
	}
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

// viewer returns which capacity the job may use: what is kept for others of its priority or above, or of other queues, is taken,
// and what is nominated to others from a job that may evict nothing. But nothing that is only reserved is kept from a job of
// another queue within its guarantee, nor what gives way to it in TakeReserved. And nothing that is only reserved is kept from a
// gang that has begun and is below its minimum: the job that has it reserved may wait for the end of that gang, which does not
// come without the members it lacks. A gang that has lost members is such a one only if those that it has were there before:
// others may have come by borrowing, and borrow again. So is, towards jobs of its priority in its queue, a gang whose members
// that wait are made later.
func (s *Session) viewer(job *model.Job, as Supposed) model.Viewpoint {
	viewer := s.Snapshot.ViewpointOf(job)
	viewer.EndsBefore, viewer.GivesWay = as.GoneBy, as.GivesWay
	viewer.ForVictims = as.Takes || len(s.Snapshot.Held()) > 0 && hasNomination(job)
	if s.precedesAll(job, as) {
		viewer.EndsBefore = model.UnrestrictedViewpoint
	}
	viewer.Continues = job.Continues && s.precedesReservations(job)
	if len(s.Snapshot.Queues) > 0 && len(s.slots.reclaim) > 0 && s.Snapshot.ReservesOutside(viewer.Queue) {
		viewer.Guaranteed = s.slots.reclaim[0].GuaranteeFor(job)
	}
	return viewer
}

// precedesAll reports whether nothing that is only kept free is kept from the job.
func (s *Session) precedesAll(job *model.Job, as Supposed) bool {
	return as.GoneBy == 0 && s.completes(job) && (!job.LostMembers || s.precedesReservations(job))
}

// Respects reports whether what is reserved for the holder is kept from the job.
func (s *Session) Respects(job, holder *model.Job) bool {
	hold := model.HeldCapacity{Job: holder.Key, Queue: holder.InQueue(), Priority: holder.Priority, Continues: holder.Continues}
	return hold.AppliesTo(s.viewer(job, Supposed{}))
}
