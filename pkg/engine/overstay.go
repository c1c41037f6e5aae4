package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is about jobs that use capacity which is reserved for another job, and have run for longer than they said, or whose
// group does not say it any more.

// Overstayed returns the jobs that may be evicted for the holder of a reservation although their priority is the same: they
// came onto its capacity after it was reserved, and have run for longer than their groups said, or the group that said it is
// gone. It is what the session found when it began.
func (s *Session) Overstayed(holder *model.Job) []*model.Job {
	return s.reservations.overstayed[holder.Key]
}

// findOverstayed finds them for all holders, and since when there is reserved capacity.
func (s *Session) findOverstayed() {
	for _, holder := range s.Snapshot.Jobs {
		if held, _ := s.Reservation(holder); held != nil {
			if since := held.Since.Unix(); s.reservations.since == 0 || since < s.reservations.since {
				s.reservations.since = since
			}
			if jobs := s.overstayedOn(holder, held); len(jobs) > 0 {
				s.reservations.overstayed[holder.Key] = jobs
			}
		}
	}
}

// overstayedOn looks at the pods on the reserved capacity. Where it is not free, those that came last use it.
func (s *Session) overstayedOn(holder *model.Job, held *model.Reservation) (jobs []*model.Job) {
	ask := s.Ask(holder, model.Idle)
	now := s.Snapshot.Now.Unix()
	for _, reserved := range held.Nodes {
		node := s.Snapshot.Node(reserved.Node)
		if node == nil {
			continue
		}
		s.wakeForGuests(node, now)
		missing := ask.Free(node).Missing(reserved.Request)
		for _, guest := range guestsOn(node, held.Since.Unix(), now) {
			if !missing.Overlaps(guest.Request) {
				continue
			}
			missing.Sub(guest.Request)
			job := s.Snapshot.Job(guest.Job)
			if job != nil && job != holder && job.Priority <= holder.Priority && (job.Overruns(now) || job.IsUnheld(now)) && !slices.Contains(jobs, job) {
				jobs = append(jobs, job)
			}
		}
	}
	return jobs
}

// precedesReservations reports whether all members of the job on nodes were there before any capacity was reserved.
func (s *Session) precedesReservations(job *model.Job) bool {
	now := s.Snapshot.Now.Unix()
	return s.reservations.since == 0 || !slices.ContainsFunc(job.Tasks, func(task *model.Task) bool {
		return (task.Status == model.Bound || task.Status == model.Running) && task.OnNodeSince(now) > s.reservations.since
	})
}

// guestsOn returns the tasks of our jobs that came to the node after that moment, in seconds since 1970, the last first. One that
// came later than now came so by another clock: it cannot be distinguished from those that were there before.
func guestsOn(node *model.Node, since, now int64) []*model.Task {
	guests := slices.DeleteFunc(slices.Clone(node.Tasks), func(task *model.Task) bool {
		runs := task.Status == model.Bound || task.Status == model.Running
		return !runs || task.Job == model.JobKey{} || task.OnNodeSince(now) <= since || task.OnNodeSince(now) > now
	})
	slices.SortFunc(guests, func(a, b *model.Task) int {
		return cmp.Or(cmp.Compare(b.OnNodeSince(now), a.OnNodeSince(now)), cmp.Compare(a.UID, b.UID))
	})
	return guests
}

// wakeForGuests wakes the loop when a task becomes one of the guests that came later than now, by another clock.
func (s *Session) wakeForGuests(node *model.Node, now int64) {
	for _, task := range node.Tasks {
		if at := task.OnNodeSince(now); at > now && task.Job != (model.JobKey{}) {
			s.Until(time.Unix(at, 0))
		}
	}
}

// overstays reports whether a unit may be evicted for a holder of its own priority.
func (s *Session) overstays(unit framework.EvictionUnit, holder *model.Job) bool {
	return unit.Job != nil && unit.Priority() == holder.Priority && slices.Contains(s.reservations.overstayed[holder.Key], unit.Job)
}
