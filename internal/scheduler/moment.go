package scheduler

import (
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what another loop needs, to go on from here on a copy of the cluster.

// Moment is what the loop knows between two steps. It never changes, and any goroutine may read it.
type Moment struct {
	Contents *cluster.Contents
	// Delays are what is left out for a while after failures.
	Delays *backoff.Delays
	// Cycle is the number of the last cycle, Leading whether the loop decides.
	Cycle   uint64
	Leading bool
}

// Moment has the loop hand over what it knows, between two steps. Any goroutine may call it; deliver is called on the loop's and
// must not block.
func (s *Scheduler) Moment(deliver func(*Moment)) {
	s.mailbox.inspect(func(debugapi.Inspected) {
		deliver(&Moment{Contents: s.state.Contents(), Delays: s.delays.Clone(), Cycle: s.history.Last(), Leading: s.Leading()})
	})
}

// Refusals returns why jobs wait, as of the last cycle, not to be changed. The goroutine that calls Step calls it.
func (s *Scheduler) Refusals() map[model.JobKey]*model.Refusal { return s.refusals }
