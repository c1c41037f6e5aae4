package scheduler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file reads the minimum of a gang anew up to the moment when its first bind is sent: it may have been raised since the
// snapshot that the decision comes from, while the session goes on or volumes are being prepared.

// apply takes an event into the state.
func (s *Scheduler) apply(ctx context.Context, event cluster.Event) cluster.Effect {
	effect := s.state.Apply(event)
	if effect.Malformed != "" {
		s.options.Metrics.Panicked("cluster")
		klog.FromContext(ctx).Error(nil, "Malformed object", "reason", effect.Malformed)
	}
	return effect
}

// reportMalformed tells of objects that could be read, and nobody could count.
func (s *Scheduler) reportMalformed(ctx context.Context) {
	for _, why := range append(s.state.TakeMalformed(), s.reporter.TakeErrors()...) {
		s.options.Metrics.Panicked("cluster")
		klog.FromContext(ctx).Error(nil, "Malformed object", "reason", why)
	}
}

// handleEvent takes in an event outside of a cycle.
func (s *Scheduler) handleEvent(ctx context.Context, event cluster.Event, now time.Time) (outcomes []commit.Outcome) {
	effect := s.apply(ctx, event)
	if effect.Schedule {
		s.wake(now)
	}
	if effect.Report {
		s.reports.debounce(now, reportEvery, reportEvery)
		if event.Kind == cluster.KindGroup && s.starts.awaitsStatus(groups.Key(event.Group)) {
			s.wake(now)
		}
	}
	switch {
	case event.Kind == cluster.KindPod && event.Deleted:
		return s.machine.Cancel(now, event.Pod.UID)
	case event.Kind == cluster.KindPod && effect.Schedule:
		return s.updateMinimumFromPod(event, now)
	case event.Kind == cluster.KindGroup && effect.Schedule:
		return s.updateMinimumOfGroup(groups.Key(event.Group), func() *model.Snapshot { return s.state.Snapshot(now) }, now)
	}
	return nil
}

// updateMinimumFromPod rechecks the start of an implicit group when one of its pods asks for more members than were known to be needed.
func (s *Scheduler) updateMinimumFromPod(event cluster.Event, now time.Time) []commit.Outcome {
	member := groups.Of(event.Pod)
	if member.MinMember == 0 || !s.machine.Starting(member.Implicit) {
		return nil
	}
	if known := s.state.Job(member.Implicit); known != nil && known.MinMember >= member.MinMember {
		return nil
	}
	return s.updateMinimum(s.state.Snapshot(now), member.Implicit, now)
}

// drainGroupEvents takes in what has come about PodGroups while a session is open, and holds what it has decided to it, the decision
// that was sent out just now, too. heard are the PodGroups that something has come about since the session's snapshot was taken.
// It returns what became final, and whether another cycle is due.
func (s *Scheduler) drainGroupEvents(
	ctx context.Context, snapshot *model.Snapshot, decided model.JobKey, heard map[model.JobKey]bool, now time.Time,
) (outcomes []commit.Outcome, again bool) {
	for _, event := range s.mailbox.takeGroups() {
		if key := groups.Key(event.Group); s.apply(ctx, event).Schedule {
			again, heard[key] = true, true
			outcomes = append(outcomes, s.updateMinimumOfGroup(key, func() *model.Snapshot { return snapshot }, now)...)
		}
	}
	if !decided.IsPod && heard[decided.PodGroup()] {
		outcomes = append(outcomes, s.updateMinimum(snapshot, decided, now)...)
	}
	return outcomes, again
}

// updateMinimumOfGroup rechecks the starts of a PodGroup and of the implicit groups whose place it takes.
func (s *Scheduler) updateMinimumOfGroup(key model.JobKey, look func() *model.Snapshot, now time.Time) (outcomes []commit.Outcome) {
	named := func(job model.JobKey) bool { return !job.IsPod && job.PodGroup() == key }
	for _, job := range s.machine.StartingOf(named) {
		outcomes = append(outcomes, s.updateMinimum(look(), job, now)...)
	}
	return outcomes
}

// updateMinimum tells the commit machine what the newest PodGroup, or the pods of an implicit group mean for those of its members that
// are about to be bound, as the snapshot has them.
func (s *Scheduler) updateMinimum(snapshot *model.Snapshot, key model.JobKey, now time.Time) []commit.Outcome {
	job, group := snapshot.Job(key), s.state.Group(key.PodGroup())
	switch {
	case key.WithoutPodGroup && group != nil:
		return s.machine.Recheck(now, key, -1, "there is a PodGroup of its name by now")
	case key.WithoutPodGroup && job == nil:
		return nil // its members are gone, of which the machine has heard
	case key.WithoutPodGroup:
		return s.recheckMinimum(job, now)
	}
	if group == nil || job == nil || job.UID != group.UID {
		return s.machine.Recheck(now, key, -1, "its PodGroup is not there any more")
	}
	fresh := *job
	groups.Fill(&fresh, group)
	return s.recheckMinimum(&fresh, now)
}

// recheckMinimum tells the commit machine how many of the job's binds may fail.
func (s *Scheduler) recheckMinimum(fresh *model.Job, now time.Time) []commit.Outcome {
	if fresh.Invalid == nil && fresh.Whole && fresh.Count(onNode) > 0 {
		return nil // the binds are of replacements or surplus: no minimum holds them back
	}
	counts := func(task *model.Task) bool { return task.Status.CountsTowardMinimum() }
	spare := fresh.Count(counts) - int(fresh.MinMember)
	if fresh.FirstUnmetMinimum(counts) != nil || fresh.Invalid != nil {
		spare = -1
	}
	changed := "its PodGroup has changed"
	if fresh.Key.WithoutPodGroup {
		changed = "its pods have changed"
	}
	return s.machine.Recheck(now, fresh.Key, spare, fmt.Sprintf("%s, and needs %d members by now", changed, fresh.MinMember))
}
