package scheduler

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/lifecycle"
	"github.com/tutti-sched/tutti/internal/metrics"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file takes events into the state. The minimum of a gang is read again until its first bind is sent: it may have been
// raised since the snapshot that the decision comes from, during the session or while volumes are prepared.

// handleEvent takes in an event between two cycles.
func (s *Scheduler) handleEvent(ctx context.Context, event cluster.Event, now time.Time) (outcomes []commit.Outcome) {
	s.progress.count.Add(1)
	if _, is := event.(*cluster.OtherSeen); is {
		s.echo = now.Add(ownEventDelay)
	}
	pod, _ := event.(*cluster.PodSeen)
	assumed := pod != nil && s.state.Assumed(pod.Pod.UID)
	effect := s.state.Apply(event)
	if effect.Schedule {
		s.wake(now)
	}
	if effect.Report {
		s.reports.debounce(now, reportEvery, reportEvery)
		if group, is := event.(*cluster.GroupSeen); is && s.gangs.AwaitsStatus(group.GroupKey()) {
			s.wake(now)
		}
	}
	if assumed && !s.state.Assumed(pod.Pod.UID) { // the watch has just shown what became of its bind
		if bind, is := s.uncertain[pod.Pod.UID]; is {
			delete(s.uncertain, pod.Pod.UID)
			s.resolve(ctx, bind, now)
		}
	}
	group, _ := event.(cluster.GroupEvent)
	switch {
	case pod != nil && pod.Gone:
		return s.machine.Cancel(now, pod.Pod.UID)
	case pod != nil && effect.Schedule:
		return s.recheckMember(pod.Pod, now)
	case group != nil && effect.Schedule:
		return s.recheckGroups(group.GroupKey(), func() *model.Snapshot { return s.state.Snapshot(now) }, now)
	}
	return nil
}

// logMalformed logs and counts the objects that could not be read.
func (s *Scheduler) logMalformed(ctx context.Context) {
	for _, why := range s.state.TakeMalformed() {
		s.options.Metrics.Count(metrics.Quarantined, 1, "cluster")
		klog.FromContext(ctx).Error(nil, "Malformed object", "reason", why)
	}
}

// drainGroupEvents takes in events about groups during a session, and holds its decisions to them, the one that was just
// sent included.
func (s *Scheduler) drainGroupEvents(r *runningCycle, decided model.JobKey) {
	for _, event := range s.mailbox.takeGroups() {
		if s.state.Apply(event).Schedule {
			r.changed[event.GroupKey()], r.repeat = true, true
			r.outcomes = append(r.outcomes, s.recheckGroups(event.GroupKey(), func() *model.Snapshot { return r.snapshot }, r.now)...)
		}
	}
	if len(r.changed) > 0 && s.state.ReadFrom(decided, func(object model.JobKey) bool {
		return r.changed[object] || r.changed[model.JobKey{Source: object.Source}]
	}) {
		r.outcomes = append(r.outcomes, s.updateMinimum(r.snapshot, decided, r.now)...)
	}
}

// recheckMember rechecks the start of an implicit group when one of its pods states a larger minimum.
func (s *Scheduler) recheckMember(pod *corev1.Pod, now time.Time) []commit.Outcome {
	member := sources.Of(pod).Implicit()
	if member == nil || member.MinMember == 0 || !s.machine.Starting(member.Job) {
		return nil
	}
	if known := s.state.Job(member.Job); known != nil && known.MinMember >= member.MinMember {
		return nil
	}
	return s.updateMinimum(s.state.Snapshot(now), member.Job, now)
}

// recheckGroups rechecks the starts of jobs that need what the object of the key says, or one of its source where the key has no
// name.
func (s *Scheduler) recheckGroups(key model.JobKey, look func() *model.Snapshot, now time.Time) (outcomes []commit.Outcome) {
	named := func(object model.JobKey) bool {
		return object == key || key.Name == "" && object.Source == key.Source
	}
	for _, job := range s.machine.StartingOf(func(job model.JobKey) bool { return s.state.ReadFrom(job, named) }) {
		outcomes = append(outcomes, s.updateMinimum(look(), job, now)...)
	}
	return outcomes
}

// updateMinimum holds the binds of a job that are not sent yet to its minimum of now.
func (s *Scheduler) updateMinimum(snapshot *model.Snapshot, key model.JobKey, now time.Time) []commit.Outcome {
	newest, replaced := s.state.Newest(key, snapshot.Job(key))
	allowance, ok := lifecycle.Recheck(key, newest, replaced)
	if !ok {
		return nil
	}
	return s.machine.Recheck(now, key, allowance.Spare, allowance.Why)
}
