package cluster

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// podSlot is the place of one pod: what is known about it, and what the snapshot shows of it.
type podSlot struct {
	uid types.UID
	// record is nil when the pod is gone and the snapshot still shows it.
	record *record
	// task is nil while no snapshot has shown it.
	task *model.Task
	// dirty tells that the next snapshot has to look at it.
	dirty bool
}

// find returns the place and the record of a pod; both are nil when it is not known, the record when it is gone.
func (s *State) find(uid types.UID) (*podSlot, *record) {
	if slot := s.pods[uid]; slot != nil {
		return slot, slot.record
	}
	return nil, nil
}

func (s *State) record(uid types.UID) *record {
	_, record := s.find(uid)
	return record
}

// mark makes the next snapshot look at a pod.
func (s *State) mark(slot *podSlot) {
	if !slot.dirty {
		slot.dirty = true
		s.dirtyPods = append(s.dirtyPods, slot)
	}
}

// set keeps the indexes and marks what the next snapshot has to look at.
func (s *State) set(slot *podSlot, after *record) {
	before := slot.record
	slot.record = after
	s.conflicts.suspect(before, after)
	if before != nil {
		s.unlist(slot, &before.task)
		drop(s.implicit, before.member.Job, slot.uid)
	}
	if after != nil {
		s.list(slot, &after.task)
		if after.member.Implicit != (model.JobKey{}) {
			add(s.implicit, after.member.Job, slot)
		}
	}
	s.mark(slot)
	s.markJob(before, after)
}

func (s *State) list(slot *podSlot, t *model.Task) {
	if t.Status == model.Releasing && t.Pod.DeletionTimestamp != nil {
		s.releasing[slot.uid] = slot
	}
	if t.Nominated != "" {
		s.nominated[slot.uid] = slot
	}
	if t.Job != (model.JobKey{}) {
		add(s.members, t.Job, slot)
	}
	if t.Node != "" {
		add(s.held, t.Node, slot)
	}
}

func (s *State) unlist(slot *podSlot, t *model.Task) {
	if delete(s.releasing, slot.uid); len(s.releasing) == 0 && t.Status == model.Releasing {
		s.releasing = map[types.UID]*podSlot{} // a map that was large is slow to walk for ever
	}
	delete(s.nominated, slot.uid)
	drop(s.members, t.Job, slot.uid)
	drop(s.held, t.Node, slot.uid)
}

func add[K comparable](index map[K]map[types.UID]*podSlot, key K, pod *podSlot) {
	if index[key] == nil {
		index[key] = map[types.UID]*podSlot{}
	}
	index[key][pod.uid] = pod
}

func drop[K comparable](index map[K]map[types.UID]*podSlot, key K, uid types.UID) {
	delete(index[key], uid)
	if len(index[key]) == 0 {
		delete(index, key)
	}
}
