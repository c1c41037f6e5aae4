package cluster

import (
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// patchHolds gives the snapshot the capacity that is kept for jobs: that which is nominated to pods, and that which is reserved.
func (s *State) patchHolds() {
	if len(s.pods.nominated) == 0 && len(s.reserved) == 0 && len(s.snapshot.Held()) == 0 {
		return
	}
	s.applyReservations()
	holds := s.reservedHolds(make([]model.HeldCapacity, 0, len(s.pods.nominated)))
	for _, entry := range s.pods.nominated {
		task := entry.task
		job := s.snapshot.Job(task.Job)
		holds = append(holds, model.HeldCapacity{
			Job: task.Job, Queue: job.InQueue(), Priority: job.PriorityOf(task), Exclusive: len(s.snapshot.Queues) > 1,
			Node: task.Nominated, Pod: task.PodRef, Request: task.Request,
		})
	}
	slices.SortFunc(holds, func(a, b model.HeldCapacity) int { return model.CompareHeld(&a, &b) })
	s.snapshot.SetHeld(holds)
}
