package scheduler

import (
	"context"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file answers panics at the edge of a cycle, and of each step that the loop takes for one job beside cycles: a panic is
// logged and counted, and the job that it is about is held back, with the jobs of its class.

// The steps of the loop beside cycles, as logs and metrics name them after a panic.
const (
	partStarts       = "starts"
	partOutcomes     = "outcomes"
	partReservations = "reservations"
	partReports      = "reports"
	partInspection   = "inspection"
)

// maxPanicsInStep is how many cycles may panic before the loop looks after events and replies again. The next step goes on
// with the jobs that had no turn.
const maxPanicsInStep = 16

// panics are the cycles that have panicked in a row. The zero panics are none.
//
// Invariant: in a row of cycles that panic, each holds back one more job, and none is tried again before a cycle has run to
// its end. So a row is no longer than there are jobs over which something panics, and delays the others by that many cycles
// at most.
type panics struct {
	row   int
	since time.Time
	// reason is that of the last one.
	reason string
}

// afterCycle holds back the job over which the cycle has panicked and asks for the next cycle now; for a later one when the
// panic is about no single job. recovered is nil for a cycle that has run to its end.
func (s *Scheduler) afterCycle(ctx context.Context, snapshot *model.Snapshot, recovered *engine.RecoveredPanic, now time.Time) {
	s.options.Metrics.Show(metrics.CycleFailing, metrics.Is(recovered != nil && recovered.Job == nil))
	if recovered == nil {
		s.panics = panics{}
		s.delays.Cycles.Reset(backoff.AllJobs{})
		return
	}
	s.options.Metrics.Count(metrics.Quarantined, 1, recovered.Where)
	log := klog.FromContext(ctx).WithValues("where", recovered.Where, "reason", recovered.Refusal.Detail)
	if s.panics.reason != recovered.Refusal.Detail { // else it is the same, over another job
		log = log.WithValues("stack", recovered.Stack)
	}
	if s.panics.row == 0 {
		s.panics.since = now
	}
	s.panics.row, s.panics.reason, s.last.changed = s.panics.row+1, recovered.Refusal.Detail, true
	if recovered.Job == nil {
		s.delays.Cycles.Fail(backoff.AllJobs{}, recovered.Refusal, now)
		s.cycle.at(s.delays.Cycles.Until(backoff.AllJobs{}))
		log.Error(nil, "Cycle failed")
		return
	}
	s.delays.Panicked(recovered.Job, snapshot.Jobs, recovered.Refusal, now)
	s.cycle.at(now)
	log.Error(nil, "Job quarantined", "job", recovered.Job.Key.Describe())
}

// rebuild makes the state again after the second panic in a row, since the first may have left something broken in it. It
// returns the time as of which jobs are held back.
func (s *Scheduler) rebuild(now time.Time) (asOf time.Time) {
	if s.panics.row == 2 {
		s.cache = engine.Cache{}
		s.state.Rebuild()
	}
	if s.panics.row > 0 {
		return s.panics.since
	}
	return now
}

// panicked reports whether the last cycle has panicked and is to be run again now, without the job that is held back.
func (s *Scheduler) panicked(now time.Time) bool { return s.panics.row > 0 && s.cycle.due(now) }

// cyclesSuspended reports whether no cycle may run yet. Starts end in their time nevertheless.
func (s *Scheduler) cyclesSuspended(ctx context.Context, now time.Time) bool {
	if !s.delays.Cycles.Delayed(backoff.AllJobs{}, now) {
		return false
	}
	s.cycle.at(s.delays.Cycles.Until(backoff.AllJobs{}))
	if _, wake := s.checkGangs(ctx, s.state.Snapshot(now), now); !wake.IsZero() {
		s.cycle.atMost(wake)
	}
	return true
}

// quarantineOnPanic does something for a job beside cycles. After a panic the job is held back, why is returned, and the loop
// goes on with the others; what was done before the panic stands.
func (s *Scheduler) quarantineOnPanic(ctx context.Context, where string, key model.JobKey, now time.Time, do func()) (why *model.Refusal) {
	defer func() {
		if value := recover(); value != nil {
			why = &model.Refusal{Code: model.Quarantined, Detail: where + " panicked: " + model.OneLine(value)}
			s.options.Metrics.Count(metrics.Quarantined, 1, where)
			if job := s.state.Job(key); job != nil {
				s.delays.Panics.Fail(backoff.Of(job), why, now)
			}
			klog.FromContext(ctx).Error(nil, "Job quarantined", "job", key.Describe(), "where", where, "reason", why.Detail,
				"stack", string(debug.Stack()))
		}
	}()
	do()
	return nil
}

// recoverPanic does something that is about no single job, and that the loop can do without.
func (s *Scheduler) recoverPanic(ctx context.Context, where string, do func()) {
	s.quarantineOnPanic(ctx, where, model.JobKey{}, time.Time{}, do)
}
