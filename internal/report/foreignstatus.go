package report

import (
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is what a status of a group of another project is to show, and the patch that makes it so.

// The reasons of conditions of Volcano's groups, as its own scheduler writes them.
const (
	reasonNotEnoughResources = "NotEnoughResources"
	reasonNotEnoughTasks     = "NotEnoughTasks"
)

// foreignStatus returns what the status of a group is to show: a function of its object, of the live job, nil without members,
// and of why that waits, nil when it was not refused.
func foreignStatus(spec *sources.Spec, job *model.Job, refusal *model.Refusal) sources.Shown {
	if spec.Source == model.SourceNative {
		return nativeStatus(spec, job, refusal)
	}
	return volcanoStatus(spec, job, refusal)
}

// nativeStatus is that of a group of Kubernetes, as kube-scheduler writes it (pkg/scheduler/schedule_one_podgroup.go): nothing
// before a place was looked for, which takes all members that are needed, then whether there was one. Once it was placed, that
// stays, whatever becomes of its members.
func nativeStatus(spec *sources.Spec, job *model.Job, refusal *model.Refusal) sources.Shown {
	wanted := spec.Shown
	switch {
	case job == nil || wanted.Status == string(corev1.ConditionTrue):
	case job.Invalid == nil && job.FirstUnmetMinimum((*model.Task).IsBound) == nil:
		say(&wanted, schedulingv1beta1.PodGroupInitiallyScheduled, corev1.ConditionTrue, ReasonScheduled, minimumIsBound, job.Warning)
	case refusal == nil || job.Whole:
	default:
		reason := schedulingv1beta1.PodGroupReasonUnschedulable
		switch refusal.Code {
		case model.NotEnoughMembers, model.SchedulingGated:
			if wanted.Type == "" {
				return wanted
			}
		case model.InvalidGroup, model.InvalidRequest, model.Malformed, model.Quarantined, model.CycleFailed:
			reason = schedulingv1beta1.PodGroupReasonSchedulerError
		}
		say(&wanted, schedulingv1beta1.PodGroupInitiallyScheduled, corev1.ConditionFalse, reason, refusal.String(), job.Warning)
	}
	return wanted
}

// minimumIsBound is the message of a group that has started.
const minimumIsBound = "the minimum is bound"

// volcanoStatus is that of a group of Volcano. The phase goes on from the one that is shown. What the status does not say clearly
// stays: Unknown makes operators restart jobs, and is never written.
func volcanoStatus(spec *sources.Spec, job *model.Job, refusal *model.Refusal) sources.Shown {
	wanted := spec.Shown
	ended, bound, begun := false, false, false
	if wanted.Running = 0; job != nil {
		wanted.Running = count(job, func(t *model.Task) bool { return t.Status == model.Running })
		wanted.Succeeded, wanted.Failed = count(job, succeeded), count(job, failed)
		ended, bound = job.Finished(), job.FirstUnmetMinimum((*model.Task).IsBound) == nil
		begun = sources.First(job).FirstUnmetMinimum((*model.Task).IsBound) == nil // what is made later may wait
	}
	if spec.Contradiction != "" {
		why := spec.Refusal()
		say(&wanted, sources.VolcanoUnschedulable, corev1.ConditionTrue, string(why.Code), why.String())
		return wanted
	}
	switch {
	case ended && job.FirstUnmetMinimum(succeeded) == nil:
		wanted.Phase = sources.VolcanoCompleted
	case begun:
		wanted.Phase = sources.VolcanoRunning
	case wanted.Phase == "" || wanted.Phase == sources.VolcanoPending:
		wanted.Phase = sources.VolcanoInqueue
	}
	switch {
	case job == nil || ended:
	case bound:
		say(&wanted, sources.VolcanoScheduled, corev1.ConditionTrue, ReasonScheduled, minimumIsBound, job.Warning)
	case refusal != nil && !job.Whole:
		reason := reasonNotEnoughResources
		switch refusal.Code {
		case model.NotEnoughMembers:
			reason = reasonNotEnoughTasks
		case model.InvalidGroup:
			reason = string(refusal.Code)
		}
		say(&wanted, sources.VolcanoUnschedulable, corev1.ConditionTrue, reason, refusal.String(), job.Warning)
	}
	return wanted
}

// say sets the condition, with a message and notes to it.
func say(shown *sources.Shown, kind string, status corev1.ConditionStatus, reason string, message ...string) {
	shown.Type, shown.Status, shown.Reason, shown.Message = kind, string(status), reason, ""
	for _, part := range message {
		if part != "" && shown.Message != "" {
			shown.Message += "; "
		}
		shown.Message += part
	}
	shown.Message = model.Clean(shown.Message, maxForeignMessage)
}

// foreignPatch is the write that makes a status show what is wanted.
func foreignPatch(spec *sources.Spec, wanted sources.Shown, now time.Time) *commit.ForeignStatus {
	shown := spec.Shown
	watch, _ := sources.WatchOf(spec.Source) // it is one with a status of ours
	status := &commit.ForeignStatus{
		Resource: watch.Resource, Group: spec.Key(), UID: spec.UID, Subresource: spec.Source == model.SourceNative,
		HasStatus: shown.HasStatus, HasConditions: shown.HasConditions,
	}
	counts := commit.ForeignCounts{Running: wanted.Running, Succeeded: wanted.Succeeded, Failed: wanted.Failed}
	if before := (commit.ForeignCounts{Running: shown.Running, Succeeded: shown.Succeeded, Failed: shown.Failed}); counts != before {
		status.Counts = &counts
	}
	if wanted.Phase != shown.Phase {
		status.Phase = wanted.Phase
	}
	if wanted.Type != shown.Type || wanted.Status != shown.Status || wanted.Reason != shown.Reason || wanted.Message != shown.Message {
		status.Condition = &commit.ForeignCondition{
			Replaces: shown.Type, Was: shown.Status, At: shown.At,
			Type: wanted.Type, Status: corev1.ConditionStatus(wanted.Status), Reason: wanted.Reason, Message: wanted.Message,
		}
		if wanted.Type != shown.Type || wanted.Status != shown.Status {
			if status.Condition.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy(); spec.Source == model.SourceVolcano {
				status.Condition.TransitionID = transitionID(spec.UID, now)
			}
		}
	}
	return status
}

// transitionID is a UID that no other transition has.
func transitionID(group types.UID, now time.Time) types.UID {
	sum := sha256.Sum256([]byte(string(group) + now.Format(time.RFC3339Nano)))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func foreignEvent(spec *sources.Spec, reason string, now time.Time, note string) commit.Write {
	return &commit.Event{
		Regarding: referenceTo(&model.Job{Key: spec.Key(), UID: spec.UID}),
		Type:      corev1.EventTypeWarning, Reason: reason, Action: "Reporting", Note: note, At: now,
	}
}
