package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file follows what objects say of members that are made later. What counts is what an object said when its gang
// started, so that a change of the object gives no turn. A process that has seen the gang before its start knows that. One
// that has not goes by the generation, which the API server counts up with each change: an object that was never changed
// says what it said then.

// saidLater is what an object said of members that are made later when its gang started.
type saidLater struct {
	object types.UID
	later  []sources.Later
}

// readTurn gives a job its place in the order by the members that its object says are made later.
func (s *State) readTurn(job *model.Job) {
	object, known := s.objectOf(job), s.history.saidLater[job.Key].object
	if known == "" && (object == nil || len(object.Later) == 0) {
		return
	}
	started := gang.Remains(job.Present.Tasks)
	switch {
	case object == nil && !started:
		delete(s.history.saidLater, job.Key)
	case object == nil:
	case !started, known != object.UID && object.Generation == 1:
		s.history.saidLater[job.Key] = saidLater{object.UID, object.Later}
	case known != object.UID:
		s.history.saidLater[job.Key] = saidLater{object: object.UID}
	}
	if object == nil {
		return
	}
	said := s.history.saidLater[job.Key]
	sources.ReadTurn(job, object, said.later, func(pod *corev1.Pod) corev1.ResourceList { return requestsOf(pod, requests) })
}

// objectOf returns the object that says which members of a job are made later; nil when it is not known, or there is none.
func (s *State) objectOf(job *model.Job) *sources.Spec {
	if !job.Key.MarkedByOthers() {
		return nil
	}
	if parent, ok := s.foreign.parentOf(job.Key); ok {
		return s.foreign.specs[parent]
	}
	if set, ok := sources.ObjectOfPods(job); ok {
		return s.foreign.specs[set]
	}
	return s.foreign.specs[job.Key]
}
