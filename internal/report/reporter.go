package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/backoff"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How often an object is written again when nothing but this has changed. A phase or a reason is never delayed.
const (
	countInterval   = time.Second
	messageInterval = 10 * time.Second
	// echoTimeout is for how long a write counts as made that the watch has not shown.
	echoTimeout = 30 * time.Second
)

// Reporter turns the state of jobs into writes: the differences from what the API server has, or has been sent.
//
// Invariant: for an unchanged cluster it writes nothing.
type Reporter struct {
	groups map[types.UID]sentStatus
	pods   map[types.UID]sentCondition
	source Source
	// refused are the objects of which the API server refused a write, by UID.
	refused *backoff.Backoff[types.UID]
	// generation counts the calls of Report.
	generation int
	writes     []commit.Write
	wake       time.Time
}

// Source knows what the job does not say.
type Source struct {
	// Group returns the PodGroup of a job that has one, never changed.
	Group func(model.JobKey) *v1alpha1.PodGroup
	// Reservation returns what the status of the job's PodGroup is to show as reserved for it; nil when that is nothing.
	Reservation func(*model.Job) *v1alpha1.Reservation
	// Whole returns whether the group has had its minimum bound and has members left since; known is false where the status of
	// the group says so itself.
	Whole func(*model.Job) (whole, known bool)
	// Suggestion returns what would let a waiting job start; empty when nothing is known.
	Suggestion func(*model.Job) string
}

// record is what is kept of the last write about one object: until the watch has shown it and the next write may follow without
// a delay, or while the API server refuses it.
type record struct {
	at         time.Time
	generation int
	// refused says that the API server refused it.
	refused bool
	// lastReason is the reason of the last event.
	lastReason string
}

// holds reports whether what was sent counts as what the API server has.
func (r record) holds(now time.Time) bool {
	return !r.at.IsZero() && !r.refused && now.Sub(r.at) < echoTimeout
}

type sentStatus struct {
	record
	status v1alpha1.PodGroupStatus
}

type sentCondition struct {
	record
	condition corev1.PodCondition
}

// NewReporter returns a reporter that has written nothing yet.
func NewReporter(source Source) *Reporter {
	return &Reporter{
		groups: map[types.UID]sentStatus{}, pods: map[types.UID]sentCondition{}, source: source,
		refused: backoff.New[types.UID](backoff.Policy{Min: 10 * time.Second, Max: 10 * time.Minute}),
	}
}

// Report returns what is to be written about the jobs, and when to call it again at the latest; zero when nothing is delayed.
// refusals says why each waiting job waits. guard makes the report of one job, and answers a panic over it.
func (r *Reporter) Report(
	jobs []*model.Job, refusals map[model.JobKey]*model.Refusal, now time.Time, guard func(job *model.Job, report func()),
) (writes []commit.Write, wake time.Time) {
	r.generation++
	r.writes, r.wake = nil, time.Time{}
	for _, job := range jobs {
		guard(job, func() { r.reportJob(job, refusals[job.Key], now) })
	}
	r.prune()
	return r.writes, r.wake
}

func (r *Reporter) reportJob(job *model.Job, refusal *model.Refusal, now time.Time) {
	if job.HasGroup {
		if group := r.source.Group(job.Key); group.DeletionTimestamp == nil {
			r.reportGroup(job, group, refusal, now)
		}
	}
	if refusal != nil {
		suggestion := r.source.Suggestion(job)
		if suggestion != "" && refusal.Code == model.GroupNotFound { // no status has a field for it
			refusal = refusal.WithNote(suggestion)
		}
		r.reportPods(job, refusal, now)
	}
}

// Failed records that the API server refused a write. It is tried again later.
func (r *Reporter) Failed(write commit.Write, now time.Time) {
	switch {
	case write.Group != nil:
		sent := r.groups[write.Group.UID]
		sent.at, sent.refused = now, true
		r.groups[write.Group.UID] = sent
		r.refused.Fail(write.Group.UID, nil, now)
	case write.Condition != nil:
		sent := r.pods[write.Condition.Pod.UID]
		sent.at, sent.refused = now, true
		r.pods[write.Condition.Pod.UID] = sent
		r.refused.Fail(write.Condition.Pod.UID, nil, now)
	}
}

// notBefore returns when an object may be written again; interval is the shortest time between two writes that succeed.
func (r *Reporter) notBefore(object types.UID, sent record, interval time.Duration) time.Time {
	if sent.refused {
		return r.refused.Until(object)
	}
	return sent.at.Add(interval)
}

func (r *Reporter) reportGroup(job *model.Job, group *v1alpha1.PodGroup, refusal *model.Refusal, now time.Time) {
	sent := r.groups[job.UID]
	current := group.Status
	if sent.holds(now) {
		current = sent.status
	}
	was, known := r.source.Whole(job)
	if !known {
		was = meta.IsStatusConditionTrue(current.Conditions, v1alpha1.ConditionScheduled)
	}
	wanted := groupStatus(job, group, current, was, refusal, r.source.Suggestion(job), metav1.NewTime(now).Rfc3339Copy())
	wanted.Reservation = r.source.Reservation(job).DeepCopy()
	if equality.Semantic.DeepEqual(wanted, current) {
		if r.keep(sent.record, equality.Semantic.DeepEqual(current, group.Status), now) {
			sent.generation = r.generation
			r.groups[job.UID] = sent
		}
		return
	}
	if due := r.notBefore(job.UID, sent.record, interval(current, wanted)); due.After(now) {
		r.requeue(due)
		sent.generation = r.generation
		r.groups[job.UID] = sent
		return
	}
	reason := ""
	if condition := meta.FindStatusCondition(wanted.Conditions, v1alpha1.ConditionScheduled); condition != nil {
		reason = condition.Reason
	}
	r.writes = append(r.writes, commit.Write{Group: &commit.GroupStatus{
		Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID, Status: wanted,
	}})
	if reasonChanged(current, wanted) && sent.lastReason != reason {
		r.writes = append(r.writes, groupEvent(job, wanted, now))
	}
	r.groups[job.UID] = sentStatus{record: record{at: now, generation: r.generation, lastReason: reason}, status: wanted}
}

// keep reports whether the record of a write is still needed when there is nothing new to write: until the watch has shown the
// write and the next one may follow without a delay.
func (r *Reporter) keep(sent record, shown bool, now time.Time) bool {
	switch {
	case !sent.holds(now):
		return false
	case !shown:
		r.requeue(sent.at.Add(echoTimeout))
		return true
	default:
		return now.Sub(sent.at) < messageInterval
	}
}

// interval returns how long after the last write this difference is written.
func interval(current, wanted v1alpha1.PodGroupStatus) time.Duration {
	if current.Phase != wanted.Phase || current.ObservedGeneration != wanted.ObservedGeneration ||
		reasonChanged(current, wanted) || (current.DegradedSince == nil) != (wanted.DegradedSince == nil) ||
		nodesChanged(current.Reservation, wanted.Reservation) {
		return 0
	}
	if countsOf(current) != countsOf(wanted) { // a message that names counts would be wrong for as long
		return countInterval
	}
	another := current.SmallestChange != "" && wanted.SmallestChange != "" && current.SmallestChange != wanted.SmallestChange
	if !another && equality.Semantic.DeepEqual(current.Conditions, wanted.Conditions) &&
		equality.Semantic.DeepEqual(current.Reservation, wanted.Reservation) {
		return countInterval
	}
	return messageInterval
}

func countsOf(status v1alpha1.PodGroupStatus) [5]int32 {
	return [...]int32{status.Members, status.Placed, status.Running, status.Succeeded, status.Failed}
}

// nodesChanged reports whether other nodes are reserved than before. The expected start may change often, and does not count.
func nodesChanged(before, after *v1alpha1.Reservation) bool {
	if before == nil || after == nil {
		return before != after
	}
	return !equality.Semantic.DeepEqual(before.Nodes, after.Nodes) || !before.Since.Equal(&after.Since)
}

func reasonChanged(current, wanted v1alpha1.PodGroupStatus) bool {
	before := meta.FindStatusCondition(current.Conditions, v1alpha1.ConditionScheduled)
	after := meta.FindStatusCondition(wanted.Conditions, v1alpha1.ConditionScheduled)
	if before == nil || after == nil {
		return before != after
	}
	return before.Reason != after.Reason || before.Status != after.Status
}

// reportPods writes to each waiting pod why it waits; the API server does so for gated ones. An implicit group has no status
// for the numbers, which change often: only its first waiting member shows them.
func (r *Reporter) reportPods(job *model.Job, refusal *model.Refusal, now time.Time) {
	shown := false
	for _, task := range job.Tasks {
		if task.Status == model.Pending && !task.SchedulingGated && task.Node == "" {
			numbers := !job.HasGroup && (!job.Key.WithoutPodGroup || !shown && task.Invalid == nil)
			shown = shown || numbers
			r.reportPod(job, task, refusal, numbers, now)
		}
	}
}

// reportPod writes to one of them. numbers says that its condition shows the reason with all numbers, since no group does.
func (r *Reporter) reportPod(job *model.Job, task *model.Task, refusal *model.Refusal, numbers bool, now time.Time) {
	sent := r.pods[task.UID]
	seen := PodScheduled(task.Pod)
	current := seen
	if sent.holds(now) {
		current = &sent.condition
	}
	wanted := podCondition(job, task, current, refusal, numbers, metav1.NewTime(now).Rfc3339Copy())
	first := current == nil || current.Reason != wanted.Reason || current.Status != wanted.Status
	if !first && current.Message == wanted.Message {
		shown := seen != nil && seen.Reason == wanted.Reason && seen.Message == wanted.Message
		if r.keep(sent.record, shown, now) {
			sent.generation = r.generation
			r.pods[task.UID] = sent
		}
		return
	}
	delay := messageInterval
	if first {
		delay = 0
	}
	if due := r.notBefore(task.UID, sent.record, delay); due.After(now) {
		r.requeue(due)
		sent.generation = r.generation
		r.pods[task.UID] = sent
		return
	}
	r.writes = append(r.writes, commit.Write{Condition: &commit.PodCondition{Pod: task.PodRef, Condition: wanted}})
	if first && (numbers || !job.HasGroup && task.Invalid != nil) && sent.lastReason != wanted.Reason {
		r.writes = append(r.writes, podEvent(task.PodRef, corev1.EventTypeWarning, "FailedScheduling", wanted.Message, now))
	}
	r.pods[task.UID] = sentCondition{record: record{at: now, generation: r.generation, lastReason: wanted.Reason}, condition: wanted}
}

// requeue asks for the next call of Report.
func (r *Reporter) requeue(at time.Time) {
	if r.wake.IsZero() || at.Before(r.wake) {
		r.wake = at
	}
}

// prune drops the records of objects that this call of Report did not meet: they are gone, confirmed or no longer waiting.
func (r *Reporter) prune() {
	for uid, sent := range r.groups {
		if sent.generation != r.generation {
			delete(r.groups, uid)
			r.refused.Reset(uid)
		}
	}
	for uid, sent := range r.pods {
		if sent.generation != r.generation {
			delete(r.pods, uid)
			r.refused.Reset(uid)
		}
	}
}
