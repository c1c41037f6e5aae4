package scheduler

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reports pods that hold isolated CPUs which they should not, and evicts those that can never run: such as when two
// schedulers were active at the same time. The node's agent starts no container on CPUs that any other container has.

// watchConflicts reports new conflicts, and evicts the pods that can never run where the profile says so: each by a decision of
// its own, so that one which may not be evicted keeps no other. Such a one is tried again later.
func (s *Scheduler) watchConflicts(ctx context.Context, now time.Time) {
	for _, conflict := range s.state.TakeConflicts() {
		klog.FromContext(ctx).Info("Isolated CPUs in conflict", "pod", conflict.Pod, "node", conflict.Node, "kind", conflict.Kind,
			"detail", conflict.Detail)
		s.options.Metrics.Count(metrics.Conflicts, 1, string(conflict.Kind))
		s.machine.Write(now, report.Conflict(conflict.Pod, conflict.Node, conflict.Detail, now))
	}
	if !s.endsConflicts || s.profile.Paused != "" {
		return
	}
	for _, conflict := range s.state.ConflictLosers() {
		if s.delays.Evictions.Delayed(conflict.Pod.UID, now) {
			continue
		}
		decision := model.Decision{Evictions: []model.Eviction{{
			Pod: conflict.Pod, Job: conflict.Job, Node: conflict.Node, GraceSeconds: conflict.GraceSeconds, Message: conflict.Detail,
		}}}
		s.assume(decision)
		s.machine.Submit(now, decision)
	}
}
