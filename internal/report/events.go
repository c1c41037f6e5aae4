package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/sources"
	"github.com/tutti-sched/tutti/pkg/model"
)

// The reasons of events, beside those of conditions. Preempted and Preempting are kube-scheduler's own: on a victim, and on the
// job it freed capacity for.
const (
	// ReasonFailedScheduling is kube-scheduler's, on a pod that waits.
	ReasonFailedScheduling = "FailedScheduling"

	ReasonPreempted     = "Preempted"
	ReasonPreempting    = "Preempting"
	ReasonReclaimed     = "Reclaimed"
	ReasonStartUndone   = "StartUndone"
	ReasonRestarted     = "Restarted"
	ReasonConflict      = "IsolatedCPUConflict"
	ReasonConflictEnded = "IsolatedCPUConflictEnded"
	ReasonFieldRemoved  = "FieldRemoved"
)

// Bound is the event of a pod that was bound. That of a pod which is in no group has the warning about its job, which no
// condition has; job is nil when it is gone meanwhile.
func Bound(outcome *commit.Outcome, job *model.Job, now time.Time) commit.Write {
	note := "Bound to " + outcome.Node
	if job != nil && job.Key.IsPod() && job.Warning != "" {
		note += "; " + job.Warning
	}
	return podEvent(outcome.Pod, corev1.EventTypeNormal, ReasonScheduled, note, now)
}

// Preempted is the event of a pod that was evicted for a job; job is nil when that one is gone meanwhile.
func Preempted(outcome *commit.Outcome, job *model.Job, now time.Time) commit.Write {
	event := podEvent(outcome.Pod, corev1.EventTypeNormal, ReasonPreempted, "", now)
	event.Action = ReasonPreempting
	event.Note, event.Related = onBehalfOf("Evicted from node "+outcome.Node, outcome.Pod.Namespace, outcome.Job, job)
	if outcome.Right != "" {
		event.Reason = ReasonReclaimed
		event.Note, event.Related = forQueue("Evicted from node "+outcome.Node, outcome.Queue, outcome.Right), nil
	}
	return event
}

// Preemption are the events of evictions that were carried out for a job: one of the job, with what was evicted, and one of
// each gang that lost members, with how many. jobOf returns a live job, nil when it is gone meanwhile.
func Preemption(outcome *commit.Outcome, jobOf func(model.JobKey) *model.Job, now time.Time) (writes []commit.Write) {
	job := jobOf(outcome.Job)
	if job != nil {
		writes = append(writes, preempting(outcome, job, now))
	}
	for _, lost := range losses(outcome, jobOf) {
		event := jobEvent(lost.job, ReasonPreempted, now)
		event.Note, event.Related = lost.note, lost.related
		if lost.right != "" {
			event.Reason = ReasonReclaimed
		}
		writes = append(writes, event)
	}
	return writes
}

func preempting(outcome *commit.Outcome, job *model.Job, now time.Time) commit.Write {
	nodes := map[string]bool{}
	for _, victim := range outcome.Victims {
		nodes[victim.Node] = true
	}
	event := jobEvent(job, ReasonPreempting, now)
	event.Note = fmt.Sprintf("Evicted %s on %s to free capacity for %s: %s", countNoun(len(outcome.Victims), "pod"),
		countNoun(len(nodes), "node"), countNoun(outcome.Members, "member"), listVictims(outcome.Victims, job.Key.Namespace))
	if right := outcome.Victims[0].Right; right != "" {
		event.Note = fmt.Sprintf("Evicted %s of other queues on %s to free capacity for %s, by the %s of the queue", countNoun(len(outcome.Victims), "pod"),
			countNoun(len(nodes), "node"), countNoun(outcome.Members, "member"), right)
	}
	if outcome.Failed > 0 {
		event.Note += fmt.Sprintf("; %s stayed", countNoun(outcome.Failed, "pod"))
	}
	return event
}

// Undone is the event of a gang of which members are deleted: its start is undone, or it is restarted.
func Undone(job *model.Job, why *model.Refusal, members []model.Eviction, now time.Time) commit.Write {
	event := jobEvent(job, ReasonStartUndone, now)
	event.Type, event.Action = corev1.EventTypeWarning, "Undoing"
	if why.Code == model.MembersLost {
		event.Reason, event.Action = ReasonRestarted, "Restarting"
	}
	event.Note = fmt.Sprintf("%s; deletes %s: %s", why.Detail, countNoun(len(members), "pod"), listMembers(members))
	return event
}

// Conflict is the event of a pod that holds isolated CPUs which it should not.
func Conflict(pod model.PodRef, node, detail string, now time.Time) commit.Write {
	return podEvent(pod, corev1.EventTypeWarning, ReasonConflict, detail+" on "+node, now)
}

// ConflictEnded is the event of a pod that was evicted since it can never run.
func ConflictEnded(outcome *commit.Outcome, now time.Time) commit.Write {
	return podEvent(outcome.Pod, corev1.EventTypeWarning, ReasonConflictEnded, "Evicted from node "+outcome.Node+": "+outcome.Why, now)
}

// LostToConflicts are the events of the groups that lost a member to a conflict.
func LostToConflicts(outcome *commit.Outcome, jobOf func(model.JobKey) *model.Job, now time.Time) (writes []commit.Write) {
	for _, victim := range outcome.Victims {
		if loser := jobOf(victim.Job); loser != nil && loser.HasGroup {
			event := jobEvent(loser, ReasonConflictEnded, now)
			event.Type, event.Action = corev1.EventTypeWarning, ReasonConflictEnded
			event.Note = "Evicted pod " + victim.Pod.Name + " from node " + victim.Node + ": " + victim.Message
			writes = append(writes, event)
		}
	}
	return writes
}

// groupEvent is the event of a group whose reason has changed.
func groupEvent(job *model.Job, status v1alpha1.PodGroupStatus, now time.Time) commit.Write {
	condition := sources.Explanation(status.Conditions)
	event := &commit.Event{
		Regarding: referenceTo(job),
		Type:      corev1.EventTypeWarning, Reason: condition.Reason, Action: "Scheduling", Note: condition.Message, At: now,
	}
	if condition.Status == metav1.ConditionTrue && condition.Reason == ReasonScheduled {
		event.Type, event.Action = corev1.EventTypeNormal, "Binding"
	}
	return event
}

func podEvent(pod model.PodRef, kind, reason, note string, now time.Time) *commit.Event {
	return &commit.Event{
		Regarding: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: kind, Reason: reason, Action: "Scheduling", Note: note, At: now,
	}
}

func jobEvent(job *model.Job, reason string, now time.Time) *commit.Event {
	return &commit.Event{
		Regarding: referenceTo(job), Type: corev1.EventTypeNormal, Reason: reason, Action: ReasonPreempting, At: now,
	}
}

// referenceTo names the object that a job is to its users: its group object, or its only pod; of an implicit group the
// controller, or its oldest pod when that is of no kind that we know.
func referenceTo(job *model.Job) corev1.ObjectReference {
	reference := corev1.ObjectReference{
		APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "PodGroup",
		Namespace: job.Key.Namespace, Name: job.Key.Name, UID: job.UID,
	}
	if job.Key.IsPod() {
		reference.APIVersion, reference.Kind = "v1", "Pod"
	}
	if watch := sources.WatchOf(job.Key.Source); watch.Decode != nil {
		reference.APIVersion = watch.Resource.GroupVersion().String()
		reference.Kind, _, _ = strings.Cut(job.Key.Source.Kind(), ".")
	}
	if job.Key.IsImplicit() && len(job.Tasks) > 0 {
		oldest := job.Tasks[0].Pod
		reference.APIVersion, reference.Kind, reference.Name, reference.UID = "v1", "Pod", oldest.Name, oldest.UID
		if controller := metav1.GetControllerOf(oldest); controller != nil && isBuiltIn(controller) {
			reference.APIVersion, reference.Kind = controller.APIVersion, controller.Kind
			reference.Name, reference.UID = controller.Name, controller.UID
		}
	}
	return reference
}

// isBuiltIn reports whether a controller is of a kind of Kubernetes. Users write on their pods what they like: an event about an
// object of any kind and name would be shown where it does not belong.
func isBuiltIn(controller *metav1.OwnerReference) bool {
	switch controller.APIVersion + " " + controller.Kind {
	case "apps/v1 ReplicaSet", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "batch/v1 Job", "v1 ReplicationController":
		return len(controller.Name) <= validation.DNS1123SubdomainMaxLength
	}
	return false
}

// onBehalfOf adds the job to what was done for it, for users of a namespace; job is nil when it is gone meanwhile. One of another
// namespace is not named, nor related.
func onBehalfOf(done, reader string, key model.JobKey, job *model.Job) (note string, related *corev1.ObjectReference) {
	note = done + " to free capacity for " + key.DescribeTo(reader)
	if job == nil {
		return note, nil
	}
	if key.Namespace == reader {
		reference := referenceTo(job)
		related = &reference
	}
	return fmt.Sprintf("%s, whose priority is %d", note, job.Priority), related
}

// forQueue adds the queue and the right to what was done: whose job it is for is not for the users of another queue to read.
func forQueue(done, queue string, right model.Right) string {
	return fmt.Sprintf("%s to free capacity for queue %s, by its %s", done, queue, right)
}

// maxListed is how many pods a note names.
const maxListed = 3

// listVictims lists pods to the users of a namespace.
func listVictims(victims []model.Eviction, reader string) string {
	names := model.NameList{Noun: "pod", Reader: reader}
	for _, victim := range slices.SortedFunc(slices.Values(victims), func(a, b model.Eviction) int {
		return cmp.Compare(a.Pod.String(), b.Pod.String())
	}) {
		names.Add(victim.Pod.Namespace, victim.Pod.String())
	}
	return names.String()
}

func listMembers(members []model.Eviction) string {
	var names []string
	for _, member := range members {
		names = append(names, member.Pod.Name+" on "+member.Node)
	}
	if len(names) <= maxListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
}

func countNoun(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
