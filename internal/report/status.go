package report

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/gang"
	"github.com/tutti-sched/tutti/pkg/model"
)

// groupStatus returns the status a job's PodGroup is to have: a function of the live job, of why it waits (nil when it was not
// refused), of its PodGroup and the status it has, or was sent, of whether it was whole: had its minimum bound, and has had
// members left since; and of the last eviction of its members, nil when none is known.
func groupStatus(
	job *model.Job, group *v1alpha1.PodGroup, current v1alpha1.PodGroupStatus, wasWhole bool, refusal *model.Refusal,
	last *eviction, now metav1.Time,
) v1alpha1.PodGroupStatus {
	status := *current.DeepCopy()
	status.WaitingSince = sources.WaitingSince(job, status.WaitingSince, refusal != nil, now)
	status.Advice = nil // unless there is another one

	job = gang.Stated(job)
	status.OverrunSince = sources.OverrunSince(job, current.OverrunSince, now)
	status.QueuedSince = sources.QueuedSince(job, &current)
	status.EvictedAt = sources.EvictedAt(job, current.EvictedAt, now)
	status.Reclaims = sources.Reclaims(job)
	status.DegradedSince = sources.DegradedSince(job, current, wasWhole, now)
	status.ObservedGeneration = group.Generation
	if !job.Finished() {
		status.Queue = ""
		if queue := job.InQueue(); queue != nil {
			status.Queue = queue.Name
		}
	}
	status.Members = int32(len(job.Tasks))
	status.Placed = count(job, (*model.Task).IsBound)
	status.Running = count(job, model.Running.Is)
	status.Succeeded = count(job, model.Succeeded.Is)
	status.Failed = count(job, model.Failed.Is)

	setEvicted(&status, job, last, group.Generation, now)
	condition := scheduledCondition(job, refusal, wasWhole)
	if evicted := evictedCondition(&status, job, refusal); evicted != nil && (condition == nil || condition.Status == metav1.ConditionFalse) {
		condition = evicted
	}
	if condition == nil && !wasWhole && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduled) {
		condition = &metav1.Condition{
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: ReasonRestarts,
			Message: "no bound member is left; the gang starts again",
		}
	}
	if condition != nil && (!job.Finished() || condition.Reason == ReasonEvicted) { // the condition of a job that has ended stays
		condition.ObservedGeneration = group.Generation
		if job.Warning != "" {
			condition.Message += "; " + job.Warning
		}
		condition.LastTransitionTime = now // kept by SetStatusCondition while the status stays
		meta.SetStatusCondition(&status.Conditions, *condition)
	}
	setDegraded(&status, job, wasWhole && gang.Remains(job.Tasks), refusal, group.Generation, now)
	isScheduled := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionScheduled)
	status.Phase = phase(job, isScheduled, isEvicted(status) || job.Evicted, status.Phase)
	status.FinishedAt = sources.FinishedAt(status.Phase, current.FinishedAt, now)
	if job.Finished() && status.Phase == v1alpha1.PodGroupPending &&
		meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScheduled) == nil {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{ // it waits for members that may never be created
			Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: string(model.NotEnoughMembers),
			Message:            fmt.Sprintf("needs %d, and the %d that exist have ended", job.MinMember, len(job.Tasks)),
			ObservedGeneration: group.Generation, LastTransitionTime: now,
		})
	}
	return status
}

// maxConditions is how many conditions a status may have, as in the API.
const maxConditions = 16

// boundConditions drops conditions that others have added, the last ones first, where ours would make them more than the API
// allows: it would refuse the whole status.
func boundConditions(status *v1alpha1.PodGroupStatus) {
	ours := []string{v1alpha1.ConditionScheduled, v1alpha1.ConditionDegraded, v1alpha1.ConditionReserved, v1alpha1.ConditionEvicted}
	for i := len(status.Conditions) - 1; len(status.Conditions) > maxConditions; i-- {
		if !slices.Contains(ours, status.Conditions[i].Type) {
			status.Conditions = slices.Delete(status.Conditions, i, i+1)
		}
	}
}

func count(job *model.Job, condition func(*model.Task) bool) int32 {
	return int32(job.Count(condition))
}

func running(t *model.Task) bool { return t.Status == model.Running || t.Status == model.Succeeded }

// phase returns the phase of the job; evicted reports that the scheduler, or a user, has evicted members of it since it had its
// minimum. before is the phase it had, which a job that has ended keeps while its pods are deleted.
func phase(job *model.Job, isScheduled, evicted bool, before v1alpha1.PodGroupPhase) v1alpha1.PodGroupPhase {
	hadEnded := before == v1alpha1.PodGroupSucceeded || before == v1alpha1.PodGroupFailed
	switch {
	case job.Finished() && len(job.Tasks) > 0 && job.FirstUnmetMinimum(model.Succeeded.Is) == nil:
		return v1alpha1.PodGroupSucceeded
	case job.Finished() && len(job.Tasks) > 0 && evicted && isToBeMadeAgain(job):
		return v1alpha1.PodGroupPending
	case job.Finished() && hadEnded:
		return before
	case job.Finished() && job.Count(model.Failed.Is) > 0:
		return v1alpha1.PodGroupFailed
	case job.FirstUnmetMinimum(running) == nil:
		return v1alpha1.PodGroupRunning
	case job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		return v1alpha1.PodGroupStarting
	case isScheduled && job.Count((*model.Task).IsBound) > 0:
		return v1alpha1.PodGroupDegraded
	default:
		return v1alpha1.PodGroupPending
	}
}

// The reasons of conditions. A condition that is true has its type for a reason. Those of Scheduled=False are the codes of
// refusals, ReasonRestarts, and ReasonEvicted of a group whose members have not been made again.
const (
	ReasonScheduled = v1alpha1.ConditionScheduled
	ReasonEvicted   = v1alpha1.ConditionEvicted
	ReasonRestarts  = "StartsAgain"
	ReasonEnded     = "Ended"
)

// setDegraded sets the condition Degraded of a job that was whole and has members left, or not.
func setDegraded(
	status *v1alpha1.PodGroupStatus, job *model.Job, left bool, refusal *model.Refusal, generation int64, now metav1.Time,
) {
	message := ""
	if left && !job.Finished() && job.FirstUnmetMinimum((*model.Task).IsBound) != nil {
		if job.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) == nil {
			return // binds are in flight, or the watch has not shown them: as it was before
		}
		message = "below its minimum: " + degraded(job, refusal)
		if job.Warning != "" {
			message += "; " + job.Warning
		}
	}
	setCondition(status, v1alpha1.ConditionDegraded, message, "the gang is not degraded any more", generation, now)
}

// evictedCondition returns the condition Scheduled of a group that was evicted and of which members have not been made again; nil
// where it waits for something else.
func evictedCondition(status *v1alpha1.PodGroupStatus, job *model.Job, refusal *model.Refusal) *metav1.Condition {
	lacks := job.FirstUnmetMinimum((*model.Task).Exists)
	if lacks == nil || !isEvicted(*status) || refusal != nil && refusal.Code != model.NotEnoughMembers {
		return nil
	}
	words := strings.TrimPrefix(fmt.Sprintf("%s needs %d, %d exist", lacks.What(), lacks.Needs, lacks.Has), " ")
	if refusal != nil {
		words = refusal.String()
	}
	return &metav1.Condition{
		Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: ReasonEvicted,
		Message: meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionEvicted).Message + "; " + words,
	}
}

func isEvicted(status v1alpha1.PodGroupStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionEvicted)
}

// setReserved sets the condition Reserved as the reservation of the status says.
func setReserved(status *v1alpha1.PodGroupStatus, generation int64, now metav1.Time) {
	message := ""
	if status.Reservation != nil {
		message = "capacity is reserved on " + countNoun(len(status.Reservation.Nodes), "node")
	}
	setCondition(status, v1alpha1.ConditionReserved, message, "no capacity is reserved any more", generation, now)
}

// setCondition makes a condition true with a message, or with an empty one false. One that was never true stays absent.
func setCondition(status *v1alpha1.PodGroupStatus, kind, message, ended string, generation int64, now metav1.Time) {
	condition := metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: kind, Message: message, ObservedGeneration: generation, LastTransitionTime: now,
	}
	if message == "" {
		if !meta.IsStatusConditionTrue(status.Conditions, kind) {
			return
		}
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, ReasonEnded, ended
	}
	meta.SetStatusCondition(&status.Conditions, condition)
}

// scheduledCondition returns the condition Scheduled, nil where it does not change, as between a decision and its binds. It
// turns True when the minimum is bound, and False again only when no member is bound any more.
func scheduledCondition(job *model.Job, refusal *model.Refusal, wasWhole bool) *metav1.Condition {
	condition := &metav1.Condition{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionTrue}
	switch {
	case job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		condition.Reason = ReasonScheduled
		condition.Message = fmt.Sprintf("the minimum of %d is bound", job.MinMember)
		if refusal != nil {
			condition.Message += "; " + refusal.String()
		}
	case wasWhole && gang.Remains(job.Tasks):
		if job.FirstUnmetMinimum((*model.Task).CountsTowardMinimum) == nil {
			return nil
		}
		condition.Reason, condition.Message = ReasonScheduled, "the gang has started, and is degraded"
	case refusal != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason = string(refusal.Code)
		condition.Message = refusal.String()
		if n := job.Count((*model.Task).IsBound); n > 0 {
			condition.Message += fmt.Sprintf("; %d of %d are bound", n, job.MinMember)
		}
	default:
		return nil
	}
	return condition
}

func degraded(job *model.Job, refusal *model.Refusal) string {
	if refusal != nil {
		return refusal.String()
	}
	short := job.FirstUnmetMinimum((*model.Task).IsBound)
	return fmt.Sprintf("needs %d, %d bound", short.Needs, short.Has)
}

// podCondition returns the condition PodScheduled=False of a waiting pod. A member's message names its group and leaves the
// numbers to the group's condition, so that it need not change with each node; where no group shows them, one pod does, and
// numbers is true for it.
func podCondition(
	job *model.Job, task *model.Task, current *corev1.PodCondition, refusal *model.Refusal, numbers bool, now metav1.Time,
) corev1.PodCondition {
	if task.Invalid != nil {
		refusal = task.Invalid
	}
	condition := corev1.PodCondition{
		Type:               corev1.PodScheduled,
		Status:             corev1.ConditionFalse,
		Reason:             podReason(refusal),
		Message:            refusal.String(),
		LastTransitionTime: now,
	}
	switch {
	case task.Invalid != nil || numbers:
	case job.HasGroup:
		condition.Message = fmt.Sprintf("waits with its PodGroup %q: %s", job.Key.Name, refusal.Code)
	default:
		condition.Message = fmt.Sprintf("waits with its group %q: %s; the oldest of its pods that wait says more", job.Key.Name, refusal.Code)
	}
	if current != nil && current.Status == condition.Status {
		condition.LastTransitionTime = current.LastTransitionTime
	}
	return condition
}

// podReason returns the reason of the condition. Autoscalers add nodes for pods that are Unschedulable, so that only a refusal
// has it which another node may end: nodes lack capacity, do not match, or are reserved for another job. The table in
// docs/autoscaling.md is of this.
func podReason(refusal *model.Refusal) string {
	if refusal.LacksPlace() || refusal.Code == model.Reserved {
		return corev1.PodReasonUnschedulable
	}
	return string(refusal.Code)
}
