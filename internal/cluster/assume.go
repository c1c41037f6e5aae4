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
		entry, before := s.find(bind.Pod.UID)
		if before == nil || before.task.Status != model.Pending {
			continue
		}
		after := *before
		after.bind, after.assignedCPUs, after.task.Place = bind.Node, nil, sources.PlaceOf(bind.Place)
		if bind.Isolated != nil {
			after.assignedCPUs = bind.Isolated.Assignment
		}
		s.assume(entry, &after)
	}
	for _, eviction := range decision.Evictions {
		entry, before := s.find(eviction.Pod.UID)
		if before == nil || !before.task.Status.Occupies() || before.task.Status == model.Releasing {
			continue
		}
		after := *before
		after.evicted = true
		if before.prolonged {
			after.stayed = s.snapshot.Now
		}
		s.assume(entry, &after)
		if s.groups[before.task.Job] != nil {
			s.evicted[before.task.Job] = true
		}
	}
	for _, nomination := range decision.Nominations {
		entry, before := s.find(nomination.Pod.UID)
		if before == nil || before.task.Status != model.Pending || before.task.Nominated == nomination.Node {
			continue
		}
		after := *before
		after.nomination = &nomination.Node
		s.assume(entry, &after)
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
		for _, entry := range s.members[job.Key] {
			status := entry.record.task.Status
			stays = stays || status.Occupies() && status != model.Releasing
		}
		if !stays {
			s.reclaims[job.Key] = job.Reclaims + 1
			s.dirtyJobs[job.Key] = struct{}{}
		}
	}
}

// Forget takes an assumed bind back: the pod is pending again and its capacity free. It reports false when there is none.
func (s *State) Forget(pod types.UID) bool {
	entry, before := s.find(pod)
	if before == nil || before.bind == "" {
		return false
	}
	after := *before
	after.bind, after.assignedCPUs, after.task.Place, after.evicted = "", nil, sources.PlaceOf(after.task.Pod.Annotations), false
	if before.chargedAtBind() {
		after = *s.readPod(after.task.Pod, &after) // it may have come to ask for something else
	}
	s.assume(entry, &after)
	return true
}

// Outdated takes note that the API server has a newer version of a pod than this one: nothing is decided about the pod before
// the watch has shown it.
func (s *State) Outdated(pod types.UID, version string) {
	entry, before := s.find(pod)
	if before == nil || before.task.Pod.ResourceVersion != version || before.finished() {
		return
	}
	after := *before
	after.awaitsNewerVersion = true
	s.assume(entry, &after)
}

// Assumed reports whether a bind of the pod is assumed, and the watch has not said yet what became of it.
func (s *State) Assumed(pod types.UID) bool {
	record := s.record(pod)
	return record != nil && record.bind != ""
}

// HasAssumedBinds reports whether there is such a pod.
func (s *State) HasAssumedBinds() bool { return s.binds > 0 }

// ForgetEviction takes an assumed eviction back: the pod holds its capacity as before. It reports false when there is none.
func (s *State) ForgetEviction(pod types.UID) bool {
	entry, before := s.find(pod)
	if before == nil || !before.evicted {
		return false
	}
	after := *before
	after.evicted = false
	s.assume(entry, &after)
	return true
}

// ForgetNomination takes an assumed nomination back: the one before it counts, or this one when the pod says so after all. It
// reports false when there is none.
func (s *State) ForgetNomination(pod types.UID) bool {
	entry, before := s.find(pod)
	if before == nil || before.nomination == nil {
		return false
	}
	after := *before
	after.nomination, after.attempted = nil, *before.nomination
	if after.attempted != "" && after.attempted == after.task.Pod.Status.NominatedNodeName {
		after.nominated = after.attempted
	}
	s.assume(entry, &after)
	return true
}

func (s *State) assume(entry *podEntry, after *podState) {
	after.derivePosition()
	s.put(entry, after)
}
