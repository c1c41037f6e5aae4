package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reportPods writes to each waiting pod why it waits; the API server does so for gated ones. An implicit group has no status
// for the numbers, which change often: only its first waiting member shows them.
func (r *Reporter) reportPods(job *model.Job, refusal *model.Refusal, now time.Time) {
	shown, oldest := false, true
	for _, task := range job.Tasks {
		if task.Status == model.Pending && !task.SchedulingGated && task.Node == "" {
			numbers := !job.HasGroup && (!job.Key.WithoutPodGroup || !shown && task.Invalid == nil)
			shown = shown || numbers
			r.reportPod(job, task, refusal, numbers, oldest, now)
			oldest = false
		}
	}
}

// reportPod writes to one of them. numbers says that its condition shows the reason with all numbers, since no group does, and
// oldest that it is the first of them: it gets an event for each reason, since kubectl describe shows no message of a condition.
func (r *Reporter) reportPod(job *model.Job, task *model.Task, refusal *model.Refusal, numbers, oldest bool, now time.Time) {
	sent := r.pods[task.UID]
	seen := PodScheduled(task.Pod)
	current := seen
	if sent.holds(now) {
		current = &sent.condition
	}
	wanted := podCondition(job, task, current, refusal, numbers, metav1.NewTime(now).Rfc3339Copy())
	from, before := account{task.Namespace, ofPods}, ""
	if current != nil {
		before = current.Reason
	}
	if current != nil && current.Status == wanted.Status && before == wanted.Reason && current.Message == wanted.Message {
		shown := seen != nil && seen.Reason == wanted.Reason && seen.Message == wanted.Message
		if r.keep(sent.record, from, shown, now) {
			sent.generation = r.generation
			r.pods[task.UID] = sent
		}
		return
	}
	due := sent.delay(before, wanted.Reason, messageInterval)
	if sent.refused {
		due = r.refused.Until(task.UID)
	}
	writes := []commit.Write{{Condition: &commit.PodCondition{Pod: task.PodRef, Condition: wanted}}}
	if before != wanted.Reason && (numbers || oldest || !job.HasGroup && task.Invalid != nil) && sent.lastReason != wanted.Reason {
		note := wanted.Message
		if job.HasGroup && task.Invalid == nil {
			note += ": " + refusal.String()
		}
		writes = append(writes, podEvent(task.PodRef, corev1.EventTypeWarning, ReasonFailedScheduling, note, now))
	}
	sent.generation = r.generation
	r.pods[task.UID] = sent
	next := sentCondition{record: sent.next(r.generation, before, wanted.Reason, wanted.Reason, now), condition: wanted}
	urgent := before == "" || before == corev1.PodReasonSchedulingGated
	r.write(budgeted{from: from, urgent: urgent, last: sent.at, writes: writes, sent: func() { r.pods[task.UID] = next }}, due, now)
}
