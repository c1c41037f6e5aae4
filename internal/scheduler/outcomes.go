package scheduler

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file acts on what has become final: of binds, of what was reserved for them, of nominations and evictions.

// handleOutcomes acts on what has become final. A panic over an outcome costs the job that it is about.
func (s *Scheduler) handleOutcomes(ctx context.Context, outcomes []commit.Outcome) {
	now := s.options.Clock.Now()
	for _, outcome := range outcomes {
		why := s.quarantineOnPanic(ctx, partOutcomes, outcome.Job, now, func() { s.handleOutcome(ctx, outcome, now) })
		if why == nil {
			continue
		}
		if outcome.Kind == commit.Bound || s.state.Assumed(outcome.Pod.UID) { // what is assumed, or reserved, would be so indefinitely
			s.uncertain.add(outcome, now)
		}
		s.wake(now)
	}
}

func (s *Scheduler) handleOutcome(ctx context.Context, outcome commit.Outcome, now time.Time) {
	switch outcome.Kind {
	case commit.Bound:
		s.bound(outcome, now)
	case commit.Obsolete:
		s.options.Reservations.Abandon(outcome.Pod.UID)
	case commit.Released:
		if s.state.Forget(outcome.Pod.UID) {
			s.wake(now)
		}
	case commit.BindFailed:
		s.onBindFailed(ctx, outcome, now)
	case commit.BindUncertain:
		klog.FromContext(ctx).Info("Bind uncertain", "pod", outcome.Pod, "node", outcome.Node, "reason", outcome.Message)
		s.awaitWatch(outcome, now)
	case commit.Committed:
		if outcome.Failed == 0 {
			if job := s.state.Job(outcome.Job); job != nil && s.delays.BindSucceeded(backoff.Of(job), now) {
				s.wake(now) // its other members have their turn
			}
		}
		if !s.machine.Starting(outcome.Job) { // while other binds of it are under way, these do not count
			s.recordStart(outcome.Job, now)
		}
	case commit.UndoFailed:
		s.state.ForgetEviction(outcome.Pod.UID)
		klog.FromContext(ctx).Info("Undo failed", "pod", outcome.Pod, "node", outcome.Node, "reason", outcome.Message)
		s.wake(now)
	case commit.WriteFailed:
		s.onWriteFailed(ctx, &outcome, now)
	case commit.StartUndone:
	default:
		s.onEvictionOutcome(ctx, &outcome, now)
	}
	var created time.Time // zero when the pod is not known
	if pod := s.state.Pod(outcome.Pod.UID); pod != nil {
		created = pod.CreationTimestamp.Time
	}
	s.options.Metrics.Outcome(&outcome, created, now)
}

// onWriteFailed acts on a status that was refused. Those of groups of other projects may all be refused, if the right is missing:
// the log says so once, and each group by an event.
func (s *Scheduler) onWriteFailed(ctx context.Context, outcome *commit.Outcome, now time.Time) {
	log := klog.FromContext(ctx)
	foreign, isForeign := outcome.Write.(*commit.ForeignStatus)
	if !isForeign {
		log.Info("Write failed", "reason", outcome.Message)
	}
	s.reporter.Failed(outcome.Write, now)
	s.queues.Failed(outcome.Write, now)
	events, first := s.foreign.Failed(outcome, now)
	if first {
		log.Error(nil, "The status of groups of another project is refused: operators may wait for it",
			"kind", foreign.Group.Source.Kind(), "reason", outcome.Message)
	}
	s.write(now, s.history.Last(), events...)
	if isForeign {
		s.reports.debounce(now, reportEvery, reportEvery)
	}
}

// onBindFailed acts on a bind that has failed: the pod waits again, its capacity is free, and job, pod and node rest for a while.
// A pod that is gone stays assumed until the watch says so, and one with a newer version waits for that version, without a rest.
// Members that are bound stay: allocate completes the gang before all other jobs, and lifecycle undoes it at its deadline.
func (s *Scheduler) onBindFailed(ctx context.Context, outcome commit.Outcome, now time.Time) {
	if outcome.PodGone && s.state.Assumed(outcome.Pod.UID) {
		s.uncertain.add(outcome, now) // the watch is about to say so; until then it would only be bound again, and again in vain
	} else {
		s.state.Forget(outcome.Pod.UID)
		if outcome.StaleVersion != "" { // it is placed again as soon as it is seen as it is
			s.state.Outdated(outcome.Pod.UID, outcome.StaleVersion)
		} else if job := s.state.Snapshot(now).Job(outcome.Job); job != nil && !outcome.PodGone {
			s.delays.BindFailed(backoff.Of(job), &outcome, now)
		}
		s.wake(now)
	}
	klog.FromContext(ctx).Info("Bind failed", "pod", outcome.Pod, "node", outcome.Node, "reason", outcome.Message)
}

// bound takes note of a bind. The answer of an extender that binds is not the API server's: only the watch confirms the bind.
func (s *Scheduler) bound(outcome commit.Outcome, now time.Time) {
	if outcome.Binder == "" {
		s.options.Reservations.Confirm(outcome.Pod.UID)
	} else {
		s.awaitWatch(outcome, now)
	}
	s.write(now, outcome.Cycle, report.Bound(&outcome, s.state.Job(outcome.Job), now))
}

// awaitWatch takes note of a bind that only the watch can confirm, unless it has.
func (s *Scheduler) awaitWatch(outcome commit.Outcome, now time.Time) {
	if s.state.Assumed(outcome.Pod.UID) {
		s.uncertain.add(outcome, now)
	} else {
		s.options.Reservations.Confirm(outcome.Pod.UID)
	}
}

// resolve ends the time of an uncertain bind: either the watch has shown the bind, or it is taken for failed.
func (s *Scheduler) resolve(ctx context.Context, bind uncertainBind, now time.Time) {
	why := s.quarantineOnPanic(ctx, partReservations, bind.job, now, func() {
		switch {
		case !s.state.Assumed(bind.pod.UID):
			s.options.Reservations.Confirm(bind.pod.UID)
			if !bind.job.IsPod() && !s.machine.Starting(bind.job) { // the minimum may be bound with it
				s.recordStart(bind.job, now)
			}
		case bind.holds:
			s.machine.ReleasePrepared(now, bind.pod) // until then it stays assumed
		case s.state.Forget(bind.pod.UID):
			s.wake(now)
		}
	})
	if why != nil {
		s.uncertain.keep(bind, now)
	}
}

// releaseOrphanedClaims frees the devices that members of jobs that cannot start hold since a start that came to no end.
func (s *Scheduler) releaseOrphanedClaims(ctx context.Context, snapshot *model.Snapshot, now time.Time) {
	for _, job := range snapshot.Jobs {
		refusal := s.refusals[job.Key]
		if !refusal.LastsUntilOthersAct() {
			continue
		}
		holds := func(task *model.Task) bool { return task.MayUseDeviceClass || len(task.Pod.Spec.ResourceClaims) > 0 }
		waiting := job.Pending()
		if !slices.ContainsFunc(waiting, holds) {
			continue
		}
		s.quarantineOnPanic(ctx, partReservations, job.Key, now, func() {
			for _, task := range waiting {
				if holds(task) && s.options.Reservations.IsOrphaned(task.Pod) {
					s.machine.ReleaseOrphaned(now, task.PodRef)
				}
			}
		})
	}
}

// noReservations is where nothing ever is.
type noReservations struct{}

func (noReservations) Confirm(types.UID) {}
func (noReservations) Abandon(types.UID) {}

func (noReservations) IsOrphaned(*corev1.Pod) bool { return false }

// onEvictionOutcome acts on an outcome of a nomination or an eviction. What was assumed of one that failed is forgotten, so that
// the next cycle plans again.
func (s *Scheduler) onEvictionOutcome(ctx context.Context, outcome *commit.Outcome, now time.Time) {
	log := klog.FromContext(ctx)
	job := s.state.Job(outcome.Job)
	switch outcome.Kind {
	case commit.Evicted:
		switch {
		case outcome.PodGone:
		case outcome.Why != "":
			s.write(now, outcome.Cycle, report.ConflictEnded(outcome, now))
		default:
			s.write(now, outcome.Cycle, report.Preempted(outcome, job, now))
		}
	case commit.EvictFailed:
		s.state.ForgetEviction(outcome.Pod.UID)
		if outcome.Refused {
			log.Info("Eviction refused", "pod", outcome.Pod, "for", outcome.Job, "reason", outcome.Message)
			why := &model.Refusal{Code: model.EvictionRefused, Detail: "pod " + outcome.Pod.String() + " could not be evicted: " + outcome.Message}
			s.delays.Evictions.Fail(outcome.Pod.UID, why, now)
		}
		s.wake(now)
	case commit.VictimsGone:
		if outcome.Job == (model.JobKey{}) {
			s.write(now, outcome.Cycle, report.LostToConflicts(outcome, s.state.Job, now)...)
			return
		}
		log.Info("Evictions carried out", "for", outcome.Job, "evicted", len(outcome.Victims), "stayed", outcome.Failed)
		if len(outcome.Victims) > 0 {
			if outcome.Victims[0].Right != "" {
				s.state.Reclaimed(outcome.Victims)
			}
			s.write(now, outcome.Cycle, report.Preemption(outcome, s.state.Job, now)...)
			s.reporter.Evicted(outcome, s.state.Job, now)
			s.reports.debounce(now, reportEvery, reportEvery)
		}
	case commit.NominationFailed:
		if !outcome.Superseded {
			s.state.ForgetNomination(outcome.Pod.UID)
		}
		if outcome.Refused && job != nil {
			log.Info("Nomination refused", "pod", outcome.Pod, "node", outcome.Node, "reason", outcome.Message)
			why := "pod " + outcome.Pod.Name + " could not be nominated for " + outcome.Node + ": " + outcome.Message
			s.delays.Binds.Fail(backoff.Of(job), &model.Refusal{Code: model.BindFailed, Detail: why}, now)
		}
		s.wake(now)
	case commit.NominationReleased:
		if outcome.Message != "" && !outcome.PodGone && !outcome.Superseded {
			log.Info("Nomination not cleared", "pod", outcome.Pod, "reason", outcome.Message)
		}
	}
}

// write hands over writes; their events are marked with the cycle that led to them, zero for none.
func (s *Scheduler) write(now time.Time, cycle uint64, writes ...commit.Write) {
	for _, write := range writes {
		if event, is := write.(*commit.Event); is {
			event.Cycle = cycle
		}
		s.machine.Write(now, write)
	}
}
