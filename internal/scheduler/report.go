package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How often an object is written again when nothing but this has changed. A phase or a reason never waits.
const (
	statusCountInterval   = time.Second
	statusMessageInterval = 10 * time.Second
	// watchEchoTimeout is for how long a write that the watch has not shown is believed to have been made.
	watchEchoTimeout = 30 * time.Second
	// What the API server refused is tried again after firstRetry, doubled each time up to longestRetry.
	firstRetry   = 10 * time.Second
	longestRetry = 10 * time.Minute
)

// reporter turns the state of jobs into the writes that tell about it: only differences from what the API server has, or
// is about to have.
//
// Invariant: for an unchanged cluster it writes nothing.
type reporter struct {
	groups map[types.UID]sentStatus
	pods   map[types.UID]sentCondition
	// seen tells whether a job's group has had its minimum bound and has members left since, where its status is behind.
	seen func(*model.Job) (whole, known bool)
	// advice returns what would let a job start that waits; empty when nobody knows.
	advice     func(*model.Job) string
	generation int
	writes     []commit.Write
	wake       time.Time
	// errors are what there was to complain of in the last pass.
	errors []string
}

// record is what is remembered of the last write about one object, as long as the watch has not shown it, a next write would
// come too soon, or the API server refused it.
type record struct {
	at   time.Time
	pass int
	// refused tells that the API server did not take it, failures how often in a row.
	refused  bool
	failures int
	// lastMessage is the reason the last event was about.
	lastMessage string
}

// holds tells whether what was sent is to be taken for what the API server has.
func (r record) holds(now time.Time) bool {
	return !r.at.IsZero() && !r.refused && now.Sub(r.at) < watchEchoTimeout
}

// notBefore returns when the object may be written again, if otherwise it may after the interval.
func (r record) notBefore(interval time.Duration) time.Time {
	if r.refused {
		return r.at.Add(min(longestRetry, firstRetry<<min(r.failures-1, 10)))
	}
	return r.at.Add(interval)
}

// next returns the record of a further write.
func (r record) next(now time.Time, pass int, told string) record {
	return record{at: now, pass: pass, failures: r.failures, lastMessage: told}
}

func (r record) fail(now time.Time) record {
	r.at, r.refused, r.failures = now, true, r.failures+1
	return r
}

type sentStatus struct {
	record
	status v1alpha1.PodGroupStatus
}

type sentCondition struct {
	record
	condition corev1.PodCondition
}

func newReporter(seen func(*model.Job) (whole, known bool), advice func(*model.Job) string) *reporter {
	return &reporter{groups: map[types.UID]sentStatus{}, pods: map[types.UID]sentCondition{}, seen: seen, advice: advice}
}

// report returns what is to be written about the jobs, and when to look again at the latest; a zero time means that
// nothing is held back. refusals says why each waiting job waits.
func (r *reporter) report(
	jobs []*model.Job, refusals map[model.JobKey]*model.Refusal, now time.Time,
) (writes []commit.Write, wake time.Time) {
	r.generation++
	r.writes, r.wake, r.errors = nil, time.Time{}, nil
	for _, job := range jobs {
		r.reportJob(job, refusals[job.Key], now)
	}
	r.forget()
	return r.writes, r.wake
}

// reportJob says what there is to say about one job, and nothing when somebody panics who works that out.
func (r *reporter) reportJob(job *model.Job, refusal *model.Refusal, now time.Time) {
	defer func() {
		if what := recover(); what != nil {
			r.errors = append(r.errors, fmt.Sprintf("job %s could not be reported: %v", job.Key, what))
		}
	}()
	if job.Group != nil && job.Group.DeletionTimestamp == nil {
		r.reportGroup(job, refusal, now)
	}
	if refusal != nil {
		if advice := r.advice(job); advice != "" && refusal.Code == model.GroupNotFound { // there is no status to say it in
			refusal = refusal.WithNote(advice)
		}
		r.reportPods(job, refusal, now)
	}
}

// takeErrors returns what could not be reported in the last pass, once.
func (r *reporter) takeErrors() []string {
	complaints := r.errors
	r.errors = nil
	return complaints
}

// failed remembers that the API server did not take a write. It is tried again after a while.
func (r *reporter) failed(write commit.Write, now time.Time) {
	switch {
	case write.Group != nil:
		sent := r.groups[write.Group.UID]
		sent.record = sent.fail(now)
		r.groups[write.Group.UID] = sent
	case write.Condition != nil:
		sent := r.pods[write.Condition.Pod.UID]
		sent.record = sent.fail(now)
		r.pods[write.Condition.Pod.UID] = sent
	}
}

func (r *reporter) reportGroup(job *model.Job, refusal *model.Refusal, now time.Time) {
	sent := r.groups[job.UID]
	current := job.Group.Status
	if sent.holds(now) {
		current = sent.status
	}
	was, known := r.seen(job)
	if !known {
		was = meta.IsStatusConditionTrue(current.Conditions, v1alpha1.ConditionScheduled)
	}
	wanted := groupStatus(job, current, was, refusal, r.advice(job), metav1.NewTime(now).Rfc3339Copy())
	if equality.Semantic.DeepEqual(wanted, current) {
		if r.keep(sent.record, equality.Semantic.DeepEqual(current, job.Group.Status), now) {
			sent.pass = r.generation
			r.groups[job.UID] = sent
		}
		return
	}
	if due := sent.notBefore(interval(current, wanted)); due.After(now) {
		r.requeue(due)
		sent.pass = r.generation
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
	if reasonChanged(current, wanted) && sent.lastMessage != reason {
		r.writes = append(r.writes, groupEvent(job, wanted, now))
	}
	r.groups[job.UID] = sentStatus{record: sent.next(now, r.generation, reason), status: wanted}
}

// keep tells whether the record of a write is still needed when there is nothing new to write: until the watch has shown it
// and the next write may come at once.
func (r *reporter) keep(sent record, shown bool, now time.Time) bool {
	switch {
	case !sent.holds(now):
		return false
	case !shown:
		r.requeue(sent.at.Add(watchEchoTimeout))
		return true
	default:
		return now.Sub(sent.at) < statusMessageInterval
	}
}

// interval returns for how long after the last write this difference may wait.
func interval(current, wanted v1alpha1.PodGroupStatus) time.Duration {
	if current.Phase != wanted.Phase || current.ObservedGeneration != wanted.ObservedGeneration ||
		reasonChanged(current, wanted) || (current.DegradedSince == nil) != (wanted.DegradedSince == nil) || roomChanged(current.Reservation, wanted.Reservation) {
		return 0
	}
	if tallyOf(current) != tallyOf(wanted) { // what is said with them tells of other members, and would be untrue for as long
		return statusCountInterval
	}
	another := current.SmallestChange != "" && wanted.SmallestChange != "" && current.SmallestChange != wanted.SmallestChange
	if !another && equality.Semantic.DeepEqual(current.Conditions, wanted.Conditions) &&
		equality.Semantic.DeepEqual(current.Reservation, wanted.Reservation) {
		return statusCountInterval
	}
	return statusMessageInterval
}

// tallyOf returns the counts of a status.
func tallyOf(status v1alpha1.PodGroupStatus) [5]int32 {
	return [...]int32{status.Members, status.Placed, status.Running, status.Succeeded, status.Failed}
}

// roomChanged tells whether other room is reserved than before; when it is expected to be free may change often.
func roomChanged(before, after *v1alpha1.Reservation) bool {
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

func groupEvent(job *model.Job, status v1alpha1.PodGroupStatus, now time.Time) commit.Write {
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduled)
	event := &commit.Event{
		Regarding: referenceTo(job),
		Type:      corev1.EventTypeWarning, Reason: condition.Reason, Action: "Scheduling", Note: condition.Message, At: now,
	}
	if condition.Status == metav1.ConditionTrue && condition.Reason == reasonScheduled {
		event.Type, event.Action = corev1.EventTypeNormal, "Binding"
	}
	return commit.Write{Event: event}
}

// reportPods tells each waiting pod why. Gated pods are told by the API server. An implicit group has no status for the numbers, which
// change often: its first member that waits tells them for all.
func (r *reporter) reportPods(job *model.Job, refusal *model.Refusal, now time.Time) {
	told := false
	for _, task := range job.Tasks {
		if task.Status == model.Pending && !task.SchedulingGated && task.Node == "" {
			speaks := job.Group == nil && (!job.Key.WithoutPodGroup || !told && task.Invalid == nil)
			told = told || speaks
			r.reportPod(job, task, refusal, speaks, now)
		}
	}
}

// reportPod tells one of them. speaks says that the reason stands here with all its numbers, since no group shows it.
func (r *reporter) reportPod(job *model.Job, task *model.Task, refusal *model.Refusal, speaks bool, now time.Time) {
	sent := r.pods[task.UID]
	seen := podScheduled(task.Pod)
	current := seen
	if sent.holds(now) {
		current = &sent.condition
	}
	wanted := podCondition(job, task, current, refusal, speaks, metav1.NewTime(now).Rfc3339Copy())
	first := current == nil || current.Reason != wanted.Reason || current.Status != wanted.Status
	if !first && current.Message == wanted.Message {
		shown := seen != nil && seen.Reason == wanted.Reason && seen.Message == wanted.Message
		if r.keep(sent.record, shown, now) {
			sent.pass = r.generation
			r.pods[task.UID] = sent
		}
		return
	}
	pause := statusMessageInterval
	if first {
		pause = 0
	}
	if due := sent.notBefore(pause); due.After(now) {
		r.requeue(due)
		sent.pass = r.generation
		r.pods[task.UID] = sent
		return
	}
	r.writes = append(r.writes, commit.Write{Condition: &commit.PodCondition{Pod: task.PodRef, Condition: wanted}})
	if first && (speaks || job.Group == nil && task.Invalid != nil) && sent.lastMessage != wanted.Reason {
		r.writes = append(r.writes, podEvent(task.PodRef, corev1.EventTypeWarning, "FailedScheduling", wanted.Message, now))
	}
	r.pods[task.UID] = sentCondition{record: sent.next(now, r.generation, wanted.Reason), condition: wanted}
}

func podEvent(pod model.PodRef, kind, reason, note string, now time.Time) commit.Write {
	return commit.Write{Event: &commit.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: kind, Reason: reason, Action: "Scheduling", Note: note, At: now,
	}}
}

func (r *reporter) requeue(at time.Time) {
	if r.wake.IsZero() || at.Before(r.wake) {
		r.wake = at
	}
}

// forget drops the records of objects that this pass did not meet: they are gone, confirmed or no longer waiting.
func (r *reporter) forget() {
	for uid, sent := range r.groups {
		if sent.pass != r.generation {
			delete(r.groups, uid)
		}
	}
	for uid, sent := range r.pods {
		if sent.pass != r.generation {
			delete(r.pods, uid)
		}
	}
}
