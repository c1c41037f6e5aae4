package report

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/pkg/model"
)

// reportPods writes to each waiting pod why it waits; the API server does so for gated ones. An implicit or foreign group has
// no status of ours for the numbers, which change often: only its first waiting member shows them.
func (r *Reporter) reportPods(job *model.Job, refusal *model.Refusal, now time.Time) {
	shown, oldest := false, true
	for _, task := range job.Tasks {
		if task.Status == model.Pending && !task.SchedulingGated && task.Node == "" {
			numbers := !job.HasGroup && (!job.IsSchedulableGroup() || !shown && task.Invalid == nil)
			shown = shown || numbers
			r.reportPod(job, task, refusal, numbers, oldest, now)
			oldest = false
		}
	}
}

// reportPod writes to one of them. numbers says that its condition shows the reason with all numbers, since no group does, and
// oldest that it is the first of them: it gets an event for each reason, since kubectl describe shows no message of a condition.
// Another one gets an event when it has waited for firstEventAfter since it was refused first.
func (r *Reporter) reportPod(job *model.Job, task *model.Task, refusal *model.Refusal, numbers, oldest bool, now time.Time) {
	sent := r.writer.sent[task.UID]
	seen := model.PodScheduled(task.Pod)
	current := currentOf(sent, seen, now)
	wanted := podCondition(job, task, current, refusal, numbers, metav1.NewTime(now).Rfc3339Copy())
	from, before := account{task.Namespace, ofPods}, ""
	if current != nil {
		before = current.Reason
	}
	if current != nil && current.Status == wanted.Status && before == wanted.Reason && current.Message == wanted.Message {
		shown := seen != nil && seen.Reason == wanted.Reason && seen.Message == wanted.Message
		r.writer.settle(task.UID, from, shown, now)
		if _, untold := r.repeats[task.UID]; oldest || untold {
			r.repeatReason(task, oldest, current.LastTransitionTime.Time, reasonEvent(job, task, wanted.Message, refusal, now), from, now)
		}
		return
	}
	writes := []commit.Write{&commit.PodCondition{Pod: task.PodRef, Condition: wanted}}
	if before != wanted.Reason && (numbers || oldest || !job.HasGroup && task.Invalid != nil) && sent.lastReason != wanted.Reason {
		writes = append(writes, reasonEvent(job, task, wanted.Message, refusal, now))
	}
	if next, known := r.repeats[task.UID]; known {
		r.repeats[task.UID] = repeat{next.at, r.writer.generation}
	}
	first := before == "" || before == corev1.PodReasonSchedulingGated
	urgent := first || wanted.Reason == corev1.PodReasonUnschedulable && before != wanted.Reason
	r.writer.offer(offer{
		object: task.UID, from: from, before: before, after: wanted.Reason, every: messageInterval, urgent: urgent,
		shows: &wanted, reason: wanted.Reason, write: func() []commit.Write {
			switch tells := len(writes) > 1; {
			case tells && oldest:
				r.repeatAt(task, now.Add(repeatAfter))
			case tells:
				delete(r.repeats, task.UID)
			case first:
				r.repeatAt(task, now.Add(firstEventAfter))
			}
			return writes
		}}, now)
}

// reasonEvent says on a pod why it waits, with the numbers that its condition leaves to the group.
func reasonEvent(job *model.Job, task *model.Task, message string, refusal *model.Refusal, now time.Time) commit.Write {
	if job.HasGroup && task.Invalid == nil {
		message += ": " + refusal.String()
	}
	return podEvent(task.PodRef, corev1.EventTypeWarning, ReasonFailedScheduling, message, now)
}

// repeatAfter is how often the reason of a pod that waits is repeated as an event: the API server keeps events for an hour, and
// kubectl describe shows nothing else.
const repeatAfter = 30 * time.Minute

// repeat is when a reason is to be repeated, and the last call of Report that looked at it.
type repeat struct {
	at         time.Time
	generation int
}

// firstEventAfter is how long after the first condition of a pod its event follows, unless it has a node by then: most pods that
// lack others, or capacity that is about to be free, do. It is not the oldest of its job.
const firstEventAfter = messageInterval

// repeatReason writes the event of the oldest pod of a job again, half an hour after the last one. What this process does not
// know it counts from when the pod began to wait, so that the events of many pods do not come at the same time after a restart.
// The event of another pod is written once. Events come after all conditions in the budget of the pods.
func (r *Reporter) repeatReason(task *model.Task, oldest bool, since time.Time, event commit.Write, from account, now time.Time) {
	next, known := r.repeats[task.UID]
	if !known {
		next.at = since.Add((max(0, now.Sub(since))/repeatAfter + 1) * repeatAfter)
	}
	next.generation = r.writer.generation
	r.repeats[task.UID] = next
	r.writer.offerAt(offer{from: from, last: now, write: func() []commit.Write {
		if oldest {
			r.repeatAt(task, now.Add(repeatAfter))
		} else {
			delete(r.repeats, task.UID)
		}
		return []commit.Write{event}
	}}, next.at, now)
}

func (r *Reporter) repeatAt(task *model.Task, at time.Time) {
	r.repeats[task.UID] = repeat{at, r.writer.generation}
	r.writer.requeue(at)
}
