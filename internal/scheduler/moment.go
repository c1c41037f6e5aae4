package scheduler

import (
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what another loop needs, to go on from here on a copy of the cluster.

// Moment is what the loop knows between two steps. It never changes, and any goroutine may read it.
type Moment struct {
	Contents *cluster.Contents
	// Delays are what is left out for a while after failures.
	Delays *backoff.Delays
	// Gangs are what is known of gangs beside the contents.
	Gangs *lifecycle.Gangs
	// Cycle is the number of the last cycle, Leading whether the loop decides.
	Cycle   uint64
	Leading bool
	// Waiting says why jobs wait, where one more cycle would decide nothing; nil where it might decide something.
	Waiting map[model.JobKey]model.Code
	// Version is that of the snapshot, and Refused are the jobs that the last cycle refused and that a change might start.
	Version uint64
	Refused []Refused
}

// Moment has the loop hand over what it knows, between two steps. Any goroutine may call it; deliver is called on the loop's and
// must not block.
func (s *Scheduler) Moment(deliver func(*Moment)) {
	s.mailbox.inspect(func(shown debugapi.Inspected) {
		delays := s.delays.Clone()
		moment := &Moment{
			Contents: s.state.Contents(), Delays: delays, Gangs: s.gangs.Clone(delays), Cycle: s.history.Last(), Leading: s.Leading(),
			Version: shown.Snapshot.Version, Refused: RefusedOf(shown.Snapshot, s.refusals),
		}
		if at := moment.Contents.At; moment.Leading && s.wouldRepeat(at) && !s.last.awaitsWatch && !s.delays.Cycles.Delayed(backoff.AllJobs{}, at) {
			moment.Waiting = make(map[model.JobKey]model.Code, len(s.refusals))
			for job, refusal := range s.refusals {
				moment.Waiting[job] = refusal.Code
			}
		}
		deliver(moment)
	})
}

// GoOn lets a new loop lead from the moment of another one on, on a state that holds its contents: without Lead, which would look
// again for what the other one knows. The first step runs a cycle. Calls that were under way are not, and nothing answers them.
func (s *Scheduler) GoOn(moment *Moment) {
	delays := moment.Delays.Clone()
	*s.delays, *s.gangs = *delays, *moment.Gangs.Clone(s.delays)
	s.leading.Store(true)
	s.cycle.at(moment.Contents.At)
}

// Refusals returns why jobs wait, as of the last cycle, not to be changed. The goroutine that calls Step calls it.
func (s *Scheduler) Refusals() map[model.JobKey]*model.Refusal { return s.refusals }
