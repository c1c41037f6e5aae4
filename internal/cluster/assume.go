package cluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Assume takes the effect of a decision as given before its calls leave: binds take their capacity, evictions start to release
// theirs, nominations keep capacity. A bind stays assumed until the watch says which node the pod is on, or that it is gone, or
// until Forget; an eviction until the watch sees the pod being deleted, or until ForgetEviction; a nomination until the pod says
// the same, or until ForgetNomination; what is reserved until the group's status shows it. What does not apply any more, such as
// binding a pod that is gone or has a node, is left out.
func (s *State) Assume(decision model.Decision) {
	for _, bind := range decision.Binds {
		s.change(bind.Pod.UID, func(r *podState) bool { return r.task.Status == model.Pending }, func(r *podState) {
			r.bind, r.assignedCPUs, r.task.Place = bind.Node, nil, sources.PlaceOf(bind.Place)
			if bind.Isolated != nil {
				r.assignedCPUs = bind.Isolated.Assignment
			}
		})
	}
	for _, eviction := range decision.Evictions {
		holds := func(r *podState) bool { return r.task.Status.Occupies() && r.task.Status != model.Releasing }
		s.change(eviction.Pod.UID, holds, func(r *podState) {
			if r.evicted = true; r.prolonged {
				r.stayed = s.snapshot.Now
			}
			if s.groups[r.task.Job] != nil {
				s.history.evicted[r.task.Job] = true
			}
		})
	}
	for _, nomination := range decision.Nominations {
		another := func(r *podState) bool { return r.task.Status == model.Pending && r.task.Nominated != nomination.Node }
		s.change(nomination.Pod.UID, another, func(r *podState) { r.nomination = &nomination.Node })
	}
	s.assumeStart(decision)
	if decision.Reservation != nil {
		s.assumeReservation(decision.Job, decision.Reservation)
	}
}

// Reclaimed counts the groups of which nothing is left without the pods that were evicted for another queue. An eviction that the
// API server has refused is forgotten before.
func (s *State) Reclaimed(victims []model.Eviction) {
	counted := map[model.JobKey]bool{}
	for _, victim := range victims {
		job := s.snapshot.Job(victim.Job)
		if job == nil || s.groups[job.Key] == nil || counted[job.Key] {
			continue
		}
		counted[job.Key] = true
		stays := false
		for _, entry := range s.pods.members[job.Key] {
			status := entry.record.task.Status
			stays = stays || status.Occupies() && status != model.Releasing
		}
		if !stays {
			s.history.reclaims[job.Key] = job.Reclaims + 1
			s.dirty.addJob(job.Key)
		}
	}
}

// Forget takes an assumed bind back: the pod is pending again and its capacity free. It reports false when there is none.
func (s *State) Forget(pod types.UID) bool {
	return s.change(pod, func(r *podState) bool { return r.bind != "" }, func(r *podState) {
		charged := r.chargedAtBind()
		r.bind, r.assignedCPUs, r.task.Place, r.evicted = "", nil, sources.PlaceOf(r.task.Pod.Annotations), false
		if charged {
			*r = *s.readPod(r.task.Pod, r) // it may have come to ask for something else
		}
	})
}

// Outdated takes note that the API server has a newer version of a pod than this one: nothing is decided about the pod before
// the watch has shown it.
func (s *State) Outdated(pod types.UID, version string) {
	seen := func(r *podState) bool { return r.task.Pod.ResourceVersion == version && !r.finished() }
	s.change(pod, seen, func(r *podState) { r.awaitsNewerVersion = true })
}

// Assumed reports whether a bind of the pod is assumed, and the watch has not said yet what became of it.
func (s *State) Assumed(pod types.UID) bool {
	record := s.pods.record(pod)
	return record != nil && record.bind != ""
}

// HasAssumedBinds reports whether there is such a pod.
func (s *State) HasAssumedBinds() bool { return s.pods.binds > 0 }

// ForgetEviction takes an assumed eviction back: the pod holds its capacity as before. It reports false when there is none.
func (s *State) ForgetEviction(pod types.UID) bool {
	return s.change(pod, func(r *podState) bool { return r.evicted }, func(r *podState) { r.evicted = false })
}

// ForgetNomination takes an assumed nomination back: the one before it counts, or this one when the pod says so after all. It
// reports false when there is none.
func (s *State) ForgetNomination(pod types.UID) bool {
	return s.change(pod, func(r *podState) bool { return r.nomination != nil }, func(r *podState) {
		r.nomination, r.attempted = nil, *r.nomination
		if r.attempted != "" && r.attempted == r.task.Pod.Status.NominatedNodeName {
			r.nominated = r.attempted
		}
	})
}

// change replaces what is known of a pod, if it is known and is as asked, by a copy that edit has changed. It reports whether it
// did.
func (s *State) change(pod types.UID, is func(*podState) bool, edit func(after *podState)) bool {
	entry, before := s.pods.find(pod)
	if before == nil || !is(before) {
		return false
	}
	after := *before
	edit(&after)
	after.derivePosition()
	s.put(entry, &after)
	return true
}
