package scheduler

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/cluster/groups"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/report"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file ends interrupted starts: gangs of which some members are bound, fewer than the minimum, and that were never bound as
// a whole. Allocate places the others before anything else; when the time is over that counts from the first bind, the members
// that are bound are deleted. Everything it goes by is in the API: the group's condition Scheduled says that it was whole, the
// condition PodScheduled of its pods since when they are bound. So it is all the same who began the start, this process or one
// before it. Gangs that were whole are left alone, but for those that want to be restarted when they have lost members for good.
//
// An implicit group has no condition; see groups.Whole for what says so in its place.

const (
	// maxRepair is for how long after it began to lead a process completes starts whose time is over already.
	maxRepair = 10 * time.Second
	// maxStatusWait is for how long a group that has lost all its members waits until its status says so, before it starts anew.
	maxStatusWait = 10 * time.Second
)

// gangStarts is what this process knows of starts beside what the API says.
type gangStarts struct {
	// deadline is how long after its first bind the start of a small gang may take, see commit.Deadline for large ones; repair
	// how long any may take at least after this process began to lead.
	deadline, repair time.Duration
	// leadingSince is since when this process leads.
	leadingSince time.Time
	// begun are the interrupted starts.
	begun map[model.JobKey]startRecord
	// seen says of groups whose status is behind whether they are whole: their minimum was bound, and members are left since.
	seen map[model.JobKey]groupObservation
}

// startRecord is an interrupted start. This process reckons its times once: a clock that jumps later does not change them.
type startRecord struct {
	group types.UID
	// due is until when it may be completed.
	due time.Time
}

type groupObservation struct {
	group types.UID
	whole bool
	// since is when it was first seen.
	since time.Time
}

func newStarts(deadline time.Duration) *gangStarts {
	if deadline <= 0 {
		deadline = 30 * time.Second
	}
	return &gangStarts{
		deadline: deadline, repair: min(deadline, maxRepair), begun: map[model.JobKey]startRecord{}, seen: map[model.JobKey]groupObservation{},
	}
}

// lead takes note of when this process begins to lead, and of groups that are whole although nobody has said so.
func (s *gangStarts) lead(snapshot *model.Snapshot, now time.Time) {
	s.leadingSince = now
	for _, job := range snapshot.Jobs {
		if job.IsSchedulableGroup() && !job.Whole && job.FirstUnmetMinimum((*model.Task).IsBound) == nil {
			s.see(job, true, now)
		}
	}
}

func (s *gangStarts) see(job *model.Job, whole bool, now time.Time) {
	if seen := s.seen[job.Key]; seen.group != job.UID || seen.whole != whole || seen.since.IsZero() {
		s.seen[job.Key] = groupObservation{group: job.UID, whole: whole, since: now}
	}
}

// known tells whether the group is whole, if its status is behind.
func (s *gangStarts) known(job *model.Job) (whole, known bool) {
	seen, ok := s.seen[job.Key]
	return seen.whole, ok && seen.group == job.UID
}

// readyAt tells whether the group has had its minimum bound, and members are left since.
func (s *gangStarts) readyAt(job *model.Job) bool {
	if whole, known := s.known(job); known {
		return whole
	}
	return job.Whole
}

// statusReset takes note of what is about to be written about groups.
func (s *gangStarts) statusReset(writes []commit.Write) {
	for _, write := range writes {
		if group := write.Group; group != nil && meta.IsStatusConditionTrue(group.Status.Conditions, v1alpha1.ConditionScheduled) {
			s.seen[model.JobKey{Namespace: group.Namespace, Name: group.Name}] = groupObservation{group: group.UID, whole: true}
		}
	}
}

// drop forgets jobs that are gone, or no gangs any more.
func (s *gangStarts) drop(snapshot *model.Snapshot) {
	gone := func(key model.JobKey) bool {
		job := snapshot.Job(key)
		return job == nil || !job.IsSchedulableGroup()
	}
	maps.DeleteFunc(s.seen, func(key model.JobKey, _ groupObservation) bool { return gone(key) })
	maps.DeleteFunc(s.begun, func(key model.JobKey, _ startRecord) bool { return gone(key) })
}

// concerns tells whether there is anything to follow or to end about a gang.
func (s *gangStarts) concerns(job *model.Job) bool {
	if job.BelowMinimum || !job.NothingPending {
		return true
	}
	_, seen := s.seen[job.Key]
	_, begun := s.begun[job.Key]
	return seen || begun
}

// follow takes note of a group that has lost all it had before its status says so, and drops what is not needed any more.
func (s *gangStarts) follow(job *model.Job, now time.Time) {
	if seen, known := s.seen[job.Key]; known && (job.UID != seen.group || job.Whole == seen.whole || seen.whole && !remaining(job)) {
		delete(s.seen, job.Key)
	}
	if start, known := s.begun[job.Key]; known && (job.UID != start.group || s.readyAt(job) || !remaining(job)) {
		delete(s.begun, job.Key)
	}
	if !job.NothingPending && job.Whole && !remaining(job) {
		s.see(job, false, now)
	}
}

// awaitsStatusReset tells whether a group that could start anew has to wait until its status does not say any more that it is whole, and
// until when at the latest: whoever leads after a crash would take part of the new start for what is left of the old one, and
// leave it alone. A status that cannot be written does not keep the group from starting for ever.
func (s *gangStarts) awaitsStatusReset(job *model.Job, now time.Time) (until time.Time, ok bool) {
	seen := s.seen[job.Key]
	if seen.group != job.UID || seen.whole || !job.Whole || remaining(job) || job.FirstUnmetMinimum((*model.Task).Exists) != nil {
		return until, false
	}
	until = seen.since.Add(maxStatusWait)
	return until, until.After(now)
}

// awaitsStatus tells whether a group is to be looked at again as soon as its status has changed.
func (s *gangStarts) awaitsStatus(key model.JobKey) bool {
	seen, known := s.seen[key]
	return known && !seen.whole
}

// awaitingStatusReset is why a group waits that has lost all it had; see starts.untold.
func awaitingStatusReset() *model.Refusal {
	return &model.Refusal{Code: model.MembersLost, Detail: "all members that were bound are gone; it starts anew as soon as its status says so"}
}

// remaining tells whether the group has members that are bound or about to be, or have done their work.
func remaining(job *model.Job) bool {
	return job.Count(func(task *model.Task) bool { return task.IsBound() || task.Status == model.Binding }) > 0
}

// due returns until when an interrupted start may be completed; ok is false when the job is none.
func (s *gangStarts) due(job *model.Job, now time.Time) (at time.Time, ok bool) {
	if !job.IsSchedulableGroup() || !job.BelowMinimum || s.readyAt(job) {
		return at, false
	}
	start, known := s.begun[job.Key]
	if !known || start.group != job.UID {
		first := firstBound(job)
		if first.IsZero() {
			return at, false // nobody has bound them: they were created with their nodes
		}
		deadline := commit.Deadline(s.deadline, int(job.MinMember))
		start = startRecord{group: job.UID, due: now.Add(deadline - min(deadline, max(0, now.Sub(first))))}
		if repaired := s.leadingSince.Add(s.repair); start.due.Before(repaired) {
			start.due = repaired
		}
		s.begun[job.Key] = start
	}
	return start.due, true
}

// firstBound returns when the first of the members was bound that are on a node, as the API server took it down; zero when there
// is none.
func firstBound(job *model.Job) (first time.Time) {
	for _, task := range job.Tasks {
		if boundByUs(task) {
			first = backoff.Sooner(first, report.PodScheduled(task.Pod).LastTransitionTime.Time)
		}
	}
	return first
}

// boundByUs tells whether a task is on a node because somebody bound it there. A pod that was created with its node is not
// marked so by the API server.
func boundByUs(task *model.Task) bool {
	if task.Status != model.Bound && task.Status != model.Running {
		return false
	}
	condition := report.PodScheduled(task.Pod)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

func binding(task *model.Task) bool { return task.Status == model.Binding }

// undoExpired undoes the starts whose time is over, as soon as no bind of theirs is under way, and says which jobs are not to be
// given room for that, and when to look again. The snapshot is out of date after it.
func (s *Scheduler) undoExpired(
	ctx context.Context, snapshot *model.Snapshot, now time.Time,
) (over map[model.JobKey]*model.Refusal, wake time.Time) {
	s.starts.drop(snapshot)
	over = map[model.JobKey]*model.Refusal{}
	for _, job := range snapshot.Jobs {
		if !job.IsSchedulableGroup() || !s.starts.concerns(job) || s.delays.Panics.Delayed(backoff.Of(job), now) {
			continue
		}
		refusal := s.quarantineOnPanic(ctx, partStarts, job.Key, now, func() {
			why, again := s.endStart(ctx, job, now)
			wake = backoff.Sooner(wake, again)
			if why != nil {
				over[job.Key] = why
			}
		})
		if refusal != nil {
			over[job.Key] = refusal
		}
	}
	return over, wake
}

// undoExpiredDuringPanics undoes what is due while cycles are put off, since a start's time does not wait for who panics.
func (s *Scheduler) undoExpiredDuringPanics(ctx context.Context, now time.Time) {
	if _, wake := s.undoExpired(ctx, s.state.Snapshot(now), now); !wake.IsZero() {
		s.cycle.atMost(wake)
	}
}

// endStart is endStarts for one gang.
func (s *Scheduler) endStart(ctx context.Context, job *model.Job, now time.Time) (over *model.Refusal, wake time.Time) {
	job = groups.Stated(job, job.Group)
	s.starts.follow(job, now)
	if until, ok := s.starts.awaitsStatusReset(job, now); ok {
		return awaitingStatusReset(), until
	}
	if !job.BelowMinimum {
		return nil, wake
	}
	end, due := s.undone, time.Time{}
	which, ok := boundByUs, false
	if due, ok = s.starts.due(job, now); !ok && s.starts.readyAt(job) {
		end, which = restarted, onNode
		due, ok = groups.RestartAt(job)
	}
	switch {
	case !ok:
	case due.After(now):
		return nil, due
	case s.delays.Undone.Delayed(backoff.Of(job), now): // the API server refused the last deletion
	case job.Count(binding) > 0:
		return end(job), wake
	default:
		s.undoStart(ctx, job, which, end(job), now)
	}
	return nil, wake
}

// onNode tells whether a task is on a node.
func onNode(task *model.Task) bool { return task.Status == model.Bound || task.Status == model.Running }

// restarted returns why what is left of a gang is deleted, which was whole.
func restarted(job *model.Job) *model.Refusal {
	lost := job.Group.Status.DegradedSince
	return &model.Refusal{Code: model.MembersLost, Detail: fmt.Sprintf(
		"restarted as onMemberLoss says: it has lost members, and only %d of %d have been left since %s",
		job.Count((*model.Task).IsBound), job.MinMember, lost.UTC().Format(time.RFC3339))}
}

// What stands around the numbers of a start that was undone.
const (
	undonePrefix = "the start was undone, since "
	undoneSuffix = " were bound in time"
)

// undone returns why the job is not started after all.
func (s *Scheduler) undone(job *model.Job) *model.Refusal {
	why := s.delays.Binds.Reason(backoff.Of(job))
	if why == nil {
		why = s.refusals[job.Key]
	}
	detail := fmt.Sprintf("%sonly %d of %d%s", undonePrefix, job.Count(boundByUs), job.MinMember, undoneSuffix)
	text := why.String()
	if strings.HasPrefix(text, undonePrefix) { // and the deletion was refused: the cause is still the first one
		_, text, _ = strings.Cut(text, undoneSuffix+": ")
	}
	if text != "" {
		detail += ": " + text
	}
	return &model.Refusal{Code: model.BindFailed, Detail: detail}
}

// undoStart deletes members of a job and leaves it alone for a while.
func (s *Scheduler) undoStart(
	ctx context.Context, job *model.Job, which func(*model.Task) bool, why *model.Refusal, now time.Time,
) {
	var members []model.Bind
	decision := model.Decision{Job: job.Key}
	for _, task := range job.Tasks {
		if which(task) {
			members = append(members, model.Bind{Pod: task.PodRef, Node: task.Node})
			decision.Evictions = append(decision.Evictions, model.Eviction{Pod: task.PodRef, Job: job.Key, Node: task.Node, DeletePod: true})
		}
	}
	cause := "undo"
	if why.Code == model.MembersLost {
		cause = "restart"
	}
	klog.FromContext(ctx).Info("Gang undone", "job", job.Key, "deleted", len(members), "reason", why.Detail)
	s.options.Metrics.Evicted(cause, len(members))

	// Nothing leaves before this step has ended, so that all is assumed by then; and nobody is assumed to go who is not deleted.
	s.machine.Undo(now, job.Key, members)
	s.state.Assume(decision)
	s.delays.Undone.Fail(backoff.Of(job), why, now)
	delete(s.starts.begun, job.Key)
	s.machine.Write(now, report.Undone(job, why, members, now))
}

// onCommitted takes note of a gang whose minimum is bound, as the API server has confirmed, so that one that loses a member before
// its status says so is not taken for an interrupted start.
func (s *Scheduler) onCommitted(outcome commit.Outcome, now time.Time) {
	if outcome.Needs == 0 || outcome.Bound < outcome.Needs {
		return
	}
	job := s.state.Snapshot(now).Job(outcome.Job)
	if job == nil || !job.IsSchedulableGroup() || job.FirstUnmetMinimum(func(t *model.Task) bool { return t.Status.CountsTowardMinimum() }) != nil {
		return
	}
	for _, task := range job.Tasks {
		if _, doubted := s.doubts[task.UID]; doubted {
			return
		}
	}
	if !s.starts.readyAt(job) {
		s.options.Metrics.Started(job, now)
	}
	s.starts.see(job, true, now)
}

// until returns until when the binds of a decision about the job may be sent; zero when it begins a start of its own.
func (s *gangStarts) until(key model.JobKey) time.Time { return s.begun[key].due }
