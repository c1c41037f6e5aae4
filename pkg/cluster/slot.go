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
	s.list(slot, placesOf(before), placesOf(after))
	s.mark(slot)
	s.markJob(before, after)
}

// places are where the indexes have a pod. A zero key is nowhere.
type places struct {
	job, implicit        model.JobKey
	node                 string
	releasing, nominated bool
}

func placesOf(r *record) places {
	if r == nil {
		return places{}
	}
	t := &r.task
	p := places{
		job: t.Job, node: t.Node,
		releasing: t.Status == model.Releasing && t.Pod.DeletionTimestamp != nil, nominated: t.Nominated != "",
	}
	if r.member.Implicit != (model.JobKey{}) {
		p.implicit = r.member.Job
	}
	return p
}

// list moves a pod in the indexes. Most changes of a pod leave it where it is in most of them, and those are not touched.
func (s *State) list(slot *podSlot, from, to places) {
	shift(s.members, slot, from.job, to.job)
	shift(s.implicit, slot, from.implicit, to.implicit)
	shift(s.held, slot, from.node, to.node)
	if from.nominated != to.nominated {
		include(s.nominated, slot, to.nominated)
	}
	if from.releasing != to.releasing {
		if include(s.releasing, slot, to.releasing); len(s.releasing) == 0 {
			s.releasing = map[types.UID]*podSlot{} // a map that was large is slow to walk for ever
		}
	}
}

func shift[K comparable](index map[K]map[types.UID]*podSlot, slot *podSlot, from, to K) {
	var nowhere K
	if from == to {
		return
	}
	if from != nowhere {
		if include(index[from], slot, false); len(index[from]) == 0 {
			delete(index, from)
		}
	}
	if to != nowhere {
		if index[to] == nil {
			index[to] = map[types.UID]*podSlot{}
		}
		include(index[to], slot, true)
	}
}

func include(pods map[types.UID]*podSlot, slot *podSlot, in bool) {
	if in {
		pods[slot.uid] = slot
	} else {
		delete(pods, slot.uid)
	}
}
