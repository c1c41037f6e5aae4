package engine

import (
	"testing"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestHighestDeferredOfAJobWithTwoPriorities: a job that was deferred for members beyond its minimum, and then for its minimum,
// counts with the higher priority.
func TestHighestDeferredOfAJobWithTwoPriorities(t *testing.T) {
	snapshot := house(4)
	job := join(snapshot, "a", 1, 2, model.Resources{1})
	job.Priority = 5
	s := Open(snapshot, profileOf(), Options{})
	s.Defer(job.WithPriority(1))
	s.Defer(job)
	if highest, any := s.HighestDeferred(); !any || highest != 5 || len(s.pipeline.deferred) != 1 {
		t.Errorf("%d jobs are deferred, the highest priority is %d (%t); want one of priority 5", len(s.pipeline.deferred), highest, any)
	}
}
