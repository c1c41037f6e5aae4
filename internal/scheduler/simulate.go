package scheduler

import (
	"context"
	"time"
)

// Step does whatever is due now and returns immediately. A simulator calls it in place of Run, with the mailbox filled and the
// clock set to where it wants them, and again at NextWake at the latest.
func (s *Scheduler) Step(ctx context.Context) { s.step(ctx) }

// NextWake returns when the next step is due although the mailbox stays empty; ok is false when none is.
func (s *Scheduler) NextWake() (at time.Time, ok bool) {
	if !s.leading {
		return time.Time{}, false
	}
	return s.nextWake()
}
