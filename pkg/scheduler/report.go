package scheduler

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// How often an object is written again when nothing but this has changed. A phase or a reason never waits.
const (
	countsEvery  = time.Second
	messageEvery = 10 * time.Second
)

// reporter turns the state of jobs into the writes that tell about it: only differences from what the API server has, or
// is about to have.
//
// Invariant: for an unchanged cluster it writes nothing.
type reporter struct {
	groups map[types.UID]sentStatus
	pods   map[types.UID]sentCondition
	pass   int
	writes []commit.Write
	wake   time.Time
}

// sentStatus is a group status that was handed to commit and not seen in the watch yet, or was written too recently to
// be written again.
type sentStatus struct {
	status v1alpha1.PodGroupStatus
	at     time.Time
	pass   int
}

type sentCondition struct {
	condition corev1.PodCondition
	at        time.Time
	pass      int
}

func newReporter() *reporter {
	return &reporter{groups: map[types.UID]sentStatus{}, pods: map[types.UID]sentCondition{}}
}

// report returns what is to be written about the jobs, and when to look again at the latest; a zero time means that
// nothing is held back. refusals says why each waiting job waits.
func (r *reporter) report(
	jobs []*model.Job, refusals map[model.JobKey]*model.Refusal, now time.Time,
) (writes []commit.Write, wake time.Time) {
	r.pass++
	r.writes, r.wake = nil, time.Time{}
	for _, job := range jobs {
		refusal := refusals[job.Key]
		if job.Group != nil && job.Group.DeletionTimestamp == nil {
			r.reportGroup(job, refusal, now)
		}
		if refusal != nil {
			r.reportPods(job, refusal, now)
		}
	}
	r.forget()
	return r.writes, r.wake
}

// failed forgets what could not be written, so that the next report tries again.
func (r *reporter) failed(write commit.Write) {
	switch {
	case write.Group != nil:
		delete(r.groups, write.Group.UID)
	case write.Condition != nil:
		delete(r.pods, write.Condition.Pod.UID)
	}
}

func (r *reporter) reportGroup(job *model.Job, refusal *model.Refusal, now time.Time) {
	sent, waiting := r.groups[job.UID]
	current := job.Group.Status
	if waiting {
		current = sent.status
	}
	wanted := groupStatus(job, current, refusal, metav1.NewTime(now).Rfc3339Copy())
	if equality.Semantic.DeepEqual(wanted, current) {
		r.keepGroup(job, sent, waiting, now)
		return
	}
	if due := sent.at.Add(interval(current, wanted)); waiting && due.After(now) {
		r.lookAgain(due)
		sent.pass = r.pass
		r.groups[job.UID] = sent
		return
	}
	r.groups[job.UID] = sentStatus{status: wanted, at: now, pass: r.pass}
	r.writes = append(r.writes, commit.Write{Group: &commit.GroupStatus{
		Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID, Status: wanted,
	}})
	if reasonChanged(current, wanted) {
		r.writes = append(r.writes, groupEvent(job, wanted, now))
	}
}

// keepGroup keeps the record of what was sent while the watch has not shown it, or a next write would come too soon.
func (r *reporter) keepGroup(job *model.Job, sent sentStatus, waiting bool, now time.Time) {
	if !waiting {
		return
	}
	confirmed := equality.Semantic.DeepEqual(sent.status, job.Group.Status)
	if confirmed && now.Sub(sent.at) >= messageEvery {
		return
	}
	sent.pass = r.pass
	r.groups[job.UID] = sent
}

// interval returns for how long after the last write this difference may wait.
func interval(current, wanted v1alpha1.PodGroupStatus) time.Duration {
	if current.Phase != wanted.Phase || current.ObservedGeneration != wanted.ObservedGeneration ||
		reasonChanged(current, wanted) {
		return 0
	}
	if equality.Semantic.DeepEqual(current.Conditions, wanted.Conditions) {
		return countsEvery
	}
	return messageEvery
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
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup",
			Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID,
		},
		Type: corev1.EventTypeWarning, Reason: condition.Reason, Action: "Scheduling", Note: condition.Message, At: now,
	}
	if condition.Status == metav1.ConditionTrue && condition.Reason == reasonScheduled {
		event.Type, event.Action = corev1.EventTypeNormal, "Binding"
	}
	return commit.Write{Event: event}
}

// reportPods tells each waiting pod why. Gated pods are told by the API server.
func (r *reporter) reportPods(job *model.Job, refusal *model.Refusal, now time.Time) {
	for _, task := range job.Tasks {
		if task.Status == model.Pending && !task.Gated && task.Node == "" {
			r.reportPod(job, task, refusal, now)
		}
	}
}

func (r *reporter) reportPod(job *model.Job, task *model.Task, refusal *model.Refusal, now time.Time) {
	sent, waiting := r.pods[task.UID]
	current := podScheduled(task.Pod)
	if waiting {
		current = &sent.condition
	}
	wanted := podCondition(job, task, current, refusal, metav1.NewTime(now).Rfc3339Copy())
	first := current == nil || current.Reason != wanted.Reason || current.Status != wanted.Status
	if !first && current.Message == wanted.Message {
		if waiting && !r.shown(task, sent, now) {
			sent.pass = r.pass
			r.pods[task.UID] = sent
		}
		return
	}
	if due := sent.at.Add(messageEvery); !first && waiting && due.After(now) {
		r.lookAgain(due)
		sent.pass = r.pass
		r.pods[task.UID] = sent
		return
	}
	r.pods[task.UID] = sentCondition{condition: wanted, at: now, pass: r.pass}
	r.writes = append(r.writes, commit.Write{Condition: &commit.PodCondition{Pod: task.PodRef, Condition: wanted}})
	if first && job.Group == nil {
		r.writes = append(r.writes, podEvent(task.PodRef, corev1.EventTypeWarning, "FailedScheduling", refusal.String(), now))
	}
}

// shown tells whether the watch has confirmed what was sent and the next write may come at once.
func (r *reporter) shown(task *model.Task, sent sentCondition, now time.Time) bool {
	seen := podScheduled(task.Pod)
	return seen != nil && seen.Reason == sent.condition.Reason && seen.Message == sent.condition.Message &&
		now.Sub(sent.at) >= messageEvery
}

func podEvent(pod model.PodRef, kind, reason, note string, now time.Time) commit.Write {
	return commit.Write{Event: &commit.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: kind, Reason: reason, Action: "Scheduling", Note: note, At: now,
	}}
}

func (r *reporter) lookAgain(at time.Time) {
	if r.wake.IsZero() || at.Before(r.wake) {
		r.wake = at
	}
}

// forget drops the records of objects that this pass did not meet: they are gone, confirmed or no longer waiting.
func (r *reporter) forget() {
	for uid, sent := range r.groups {
		if sent.pass != r.pass {
			delete(r.groups, uid)
		}
	}
	for uid, sent := range r.pods {
		if sent.pass != r.pass {
			delete(r.pods, uid)
		}
	}
}
