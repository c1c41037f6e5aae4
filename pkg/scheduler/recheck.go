package scheduler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/pkg/cluster"
	"github.com/tutti-sched/tutti/pkg/cluster/groups"
	"github.com/tutti-sched/tutti/pkg/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads the minimum of a gang anew up to the moment when its first bind is sent: it may have been raised since the
// snapshot that the decision comes from, while the session goes on or volumes are being prepared.

// apply takes an event into the state.
func (s *Scheduler) apply(ctx context.Context, event cluster.Event) cluster.Effect {
	effect := s.state.Apply(event)
	if effect.Malformed != "" {
		s.options.Metrics.panicked("cluster")
		klog.FromContext(ctx).Error(nil, "Malformed object", "reason", effect.Malformed)
	}
	return effect
}

// reportMalformed tells of objects that could be read, and nobody could count.
func (s *Scheduler) reportMalformed(ctx context.Context) {
	for _, why := range append(s.state.TakeMalformed(), s.reporter.takeComplaints()...) {
		s.options.Metrics.panicked("cluster")
		klog.FromContext(ctx).Error(nil, "Malformed object", "reason", why)
	}
}

// hear takes in an event outside of a cycle.
func (s *Scheduler) hear(ctx context.Context, event cluster.Event, now time.Time) (outcomes []commit.Outcome) {
	effect := s.apply(ctx, event)
	if effect.Schedule {
		s.wake(now)
	}
	if effect.Report {
		s.reports.soon(now, reportEvery, reportEvery)
	}
	switch {
	case event.Kind == cluster.KindPod && event.Deleted:
		return s.machine.Cancel(now, event.Pod.UID)
	case event.Kind == cluster.KindGroup && effect.Schedule && s.machine.Starting(groups.Key(event.Group)):
		return s.recheck(s.state.Snapshot(now), groups.Key(event.Group), now)
	}
	return nil
}

// hearGroups takes in what has come about PodGroups while a session is open, and holds what it has decided to it. It returns what
// became final, and whether another cycle is due.
func (s *Scheduler) hearGroups(
	ctx context.Context, snapshot *model.Snapshot, now time.Time,
) (outcomes []commit.Outcome, again bool) {
	for _, event := range s.mailbox.takeGroups() {
		if s.apply(ctx, event).Schedule {
			again = true
			outcomes = append(outcomes, s.recheck(snapshot, groups.Key(event.Group), now)...)
		}
	}
	return outcomes, again
}

// recheck tells the commit machine what the newest PodGroup means for those of its members that are about to be bound, as the
// snapshot has them.
func (s *Scheduler) recheck(snapshot *model.Snapshot, key model.JobKey, now time.Time) []commit.Outcome {
	job, group := snapshot.Job(key), s.state.Group(key)
	if group == nil || job == nil || job.UID != group.UID {
		return s.machine.Recheck(now, key, -1, "its PodGroup is not there any more")
	}
	fresh := *job
	groups.Fill(&fresh, group)
	counts := func(task *model.Task) bool { return task.Status.Counts() }
	spare := fresh.Count(counts) - int(fresh.MinMember)
	if fresh.Short(counts) != nil || fresh.Refused != nil {
		spare = -1
	}
	return s.machine.Recheck(now, key, spare, fmt.Sprintf("its PodGroup has changed, and needs %d members by now", fresh.MinMember))
}
