package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file tells of pods that hold isolated CPUs which they should not, and ends those that can never run: such as when two
// schedulers were active at once. The node's agent starts no container on CPUs that another one has, whoever that is.

const (
	// reasonConflict is that of the event about a pod which holds isolated CPUs that it should not.
	reasonConflict = "IsolatedCPUConflict"
	// reasonConflictEnded is that of the events about one that was evicted for it.
	reasonConflictEnded = "IsolatedCPUConflictEnded"
)

// watchConflicts reports what has come to be wrong, and evicts who yields.
func (s *Scheduler) watchConflicts(ctx context.Context, now time.Time) {
	for _, conflict := range s.state.TakeConflicts() {
		klog.FromContext(ctx).Info("Isolated CPUs in conflict", "pod", conflict.Pod, "node", conflict.Node, "kind", conflict.Kind,
			"detail", conflict.Detail)
		s.options.Metrics.conflict(string(conflict.Kind))
		s.machine.Write(now, podEvent(conflict.Pod, corev1.EventTypeWarning, reasonConflict, conflict.Detail+" on "+conflict.Node, now))
	}
	if s.endsConflicts {
		s.endConflicts(now)
	}
}

// endConflicts evicts the pods that can never run, each by a decision of its own, so that one which may not be evicted keeps no
// other. Such a one is tried again later.
func (s *Scheduler) endConflicts(now time.Time) {
	for _, conflict := range s.state.ConflictLosers() {
		if s.spared.at(conflict.Pod.UID, now) {
			continue
		}
		decision := model.Decision{Evictions: []model.Eviction{{
			Pod: conflict.Pod, Job: conflict.Job, Node: conflict.Node, Message: conflict.Detail,
		}}}
		s.state.Assume(decision)
		s.options.Decided(decision)
		s.machine.Submit(now, decision)
	}
}

// conflictEnded tells a pod's users why it goes.
func conflictEnded(outcome commit.Outcome, now time.Time) commit.Write {
	return podEvent(outcome.Pod, corev1.EventTypeWarning, reasonConflictEnded, "Evicted from node "+outcome.Node+": "+outcome.Why, now)
}

// emitConflictEvents tells the users of groups that have lost a member to a conflict.
func (s *Scheduler) emitConflictEvents(victims []model.Eviction, now time.Time) {
	for _, victim := range victims {
		if loser := s.state.Job(victim.Job); loser != nil && loser.Group != nil {
			event := jobEvent(loser, reasonConflictEnded, now)
			event.Type, event.Action = corev1.EventTypeWarning, reasonConflictEnded
			event.Note = "Evicted pod " + victim.Pod.Name + " from node " + victim.Node + ": " + victim.Message
			s.machine.Write(now, commit.Write{Event: event})
		}
	}
}
