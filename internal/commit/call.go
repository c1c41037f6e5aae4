package commit

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind is what a call does. Kinds are ordered by precedence, the most urgent first; the first two have workers of their own,
// see Options.Preparing.
type Kind int8

// The kinds of calls.
const (
	// CallPrepare writes what was reserved for a pod to the API server, and waits until it is ready; see Preparer.
	CallPrepare Kind = iota
	// CallRelease releases what was reserved for a pod that will not be bound; see Preparer.
	CallRelease
	// CallGetPod reads the node of a pod, when the answer to a bind was lost: one GET on pods, from a quorum of etcd.
	CallGetPod
	// CallDeleteStarted deletes a pod that was bound for a gang which did not start, or starts again: one DELETE on pods.
	CallDeleteStarted
	// CallBind binds a pod to a node: one POST on pods/binding.
	CallBind
	// CallNominate writes the nominated node to a pod's status, or removes it: one PATCH on pods/status.
	CallNominate
	// CallEvict evicts a pod: one POST on pods/eviction.
	CallEvict
	// CallSetCondition writes to a pod's status for which job it will be deleted: one PATCH on pods/status.
	CallSetCondition
	// CallDelete deletes a pod: one DELETE on pods.
	CallDelete
	// CallGroupStatus replaces the status of a PodGroup: one PATCH on podgroups/status.
	CallGroupStatus
	// CallForeignStatus changes what a scheduler owns of the status of a group of another project: one PATCH of the object.
	CallForeignStatus
	// CallQueueStatus replaces the status of a Queue: one PATCH on queues/status.
	CallQueueStatus
	// CallPodCondition sets one condition of a pod: one PATCH on pods/status.
	CallPodCondition
	// CallEvent records an event, best effort: one POST on events.
	CallEvent
	// CallDeleteGroup deletes a PodGroup that has ended: one DELETE on podgroups.
	CallDeleteGroup
	kinds
)

var kindNames = [kinds]string{
	"Prepare", "Release", "Read", "Undo", "Bind", "Nominate", "Evict", "DisruptionTarget", "Delete", "GroupStatus", "ForeignStatus",
	"QueueStatus", "PodCondition", "Event", "DeleteGroup",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return "Unknown"
	}
	return kindNames[k]
}

// prepares reports whether a call of this kind goes to the Preparer.
func (k Kind) prepares() bool { return k <= CallRelease }

// hasPriority reports whether a call of this kind goes before all that report about decisions, and is not subject to
// starvationLimit.
func (k Kind) hasPriority() bool { return k <= CallBind }

// isDecision reports whether a call of this kind carries out a decision, rather than reporting it.
func (k Kind) isDecision() bool { return k <= CallDelete }

// evicts reports whether a call of this kind is one of those that end a victim.
func (k Kind) evicts() bool { return k >= CallEvict && k <= CallDelete }

// CallID identifies one attempt of a call. A Reply has it; no two attempts share one.
type CallID uint64

// Call is one request to be sent, plain data. The receiver must not change what it points to.
type Call struct {
	ID   CallID
	Kind Kind
	// Attempt counts from 1.
	Attempt int
	// Job is the decision's job; the zero key for writes.
	Job model.JobKey
	// Pod is the pod to prepare, bind, read, delete, nominate or evict; for a pod condition, the pod it is about.
	Pod model.PodRef
	// Node is the node of a bind and of its preparation, the node that CallGetPod compares, the nominated node of
	// CallNominate, empty to remove it, and the node of a pod that is undone or evicted; empty for the other kinds, except
	// that CallRelease may have it.
	Node string
	// GraceSeconds is how long a pod that is evicted or deleted may take to end, in seconds; zero is as long as it asks for.
	GraceSeconds int64
	// Binder names the binder of the pod; empty is the API server.
	Binder string
	// Isolated is what CallBind writes in one transaction with the node, for which version of the pod; nil to write only the
	// node, for any version.
	Isolated *model.Isolation
	// Place is annotations that CallBind writes in the same transaction; nil when there are none.
	Place map[string]string
	// MinBinds is that of the decision of a bind.
	MinBinds int
	// Write is the content of CallSetCondition and of the kinds that are not decisions; nil for the others.
	Write Write
}

// Annotations returns what CallBind writes on the pod in one transaction with its node; nil when that is nothing.
func (c *Call) Annotations() map[string]string {
	var all map[string]string
	add := func(more map[string]string) {
		if all == nil && len(more) > 0 {
			all = map[string]string{} // those of the decision are shared
		}
		maps.Copy(all, more)
	}
	if c.Isolated != nil {
		add(c.Isolated.Annotations)
	}
	add(c.Place)
	if c.Job.MarkedByOthers() {
		add(map[string]string{v1alpha1.AnnotationJob: fmt.Sprintf("%s %d", c.Job, c.MinBinds)})
	}
	return all
}

// Reply is the answer to one call, plain data.
type Reply struct {
	ID CallID
	// Err is nil when the API server confirmed the call, for CallGetPod that the pod is on Call.Node; else the client's
	// error. Of an *errors.StatusError of apimachinery the code, reason and Retry-After are read; ErrNotLeading says that
	// nothing was sent; ErrNotBound and ErrElsewhere are answers to a CallGetPod; after any other error the call may have
	// taken effect.
	Err error
}

// Write is one write that is not a decision: one of the types below, as a pointer. Machine and driver share it: it must not be
// changed.
type Write interface {
	// about returns the kind of the call that carries the write, the namespace of the object that it is about, empty for one without
	// a namespace, and what it changes.
	about() (kind Kind, namespace string, changes target)
	// request is the request of a client that carries it.
	request(c *Client) (*rest.Request, error)
}

func (w *GroupStatus) about() (Kind, string, target) {
	return CallGroupStatus, w.Namespace, target{uid: w.UID}
}
func (w *ForeignStatus) about() (Kind, string, target) {
	return CallForeignStatus, w.Group.Namespace, target{uid: w.UID}
}
func (w *QueueStatus) about() (Kind, string, target) { return CallQueueStatus, "", target{uid: w.UID} }
func (w *GroupDeletion) about() (Kind, string, target) {
	return CallDeleteGroup, w.Namespace, target{uid: w.UID}
}
func (w *PodCondition) about() (Kind, string, target) {
	return CallPodCondition, w.Pod.Namespace, target{uid: w.Pod.UID}
}

func (w *Event) about() (Kind, string, target) {
	about := &w.Regarding
	return CallEvent, about.Namespace, target{uid: about.UID, event: w.Reason + "/" + about.Namespace + "/" + about.Name}
}

// GroupStatus is the whole new status of a PodGroup.
type GroupStatus struct {
	Namespace, Name string
	// UID protects a later group of the same name.
	UID    types.UID
	Status v1alpha1.PodGroupStatus
}

// ForeignStatus is what a scheduler owns of the status of a group of another project; all else of it stays as it is. What it says
// of the status before is what was seen: the API server refuses the write where that is no longer so.
type ForeignStatus struct {
	Resource schema.GroupVersionResource
	Group    model.JobKey
	// UID protects a later group of the same name.
	UID types.UID
	// Subresource reports that the status is one of its own, and not written with the object.
	Subresource bool
	// HasStatus and HasConditions report that there are a status and a list of conditions already.
	HasStatus, HasConditions bool
	// Phase is empty when it stays as it is, and Counts and Condition are nil then.
	Phase     string
	Counts    *ForeignCounts
	Condition *ForeignCondition
}

// ForeignCounts are how many members a group has.
type ForeignCounts struct{ Running, Succeeded, Failed int32 }

// ForeignCondition is the one condition of a scheduler in a list that may have others.
type ForeignCondition struct {
	// Replaces and Was are type and status of the condition at the position At that it takes the place of; empty when it is added.
	Replaces, Was string `json:"-"`
	At            int    `json:"-"`

	Type   string                 `json:"type"`
	Status corev1.ConditionStatus `json:"status"`
	// TransitionID and LastTransitionTime are zero when only reason and message change, and the first also of a kind without one.
	TransitionID       types.UID   `json:"transitionID,omitempty"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	Reason             string      `json:"reason"`
	Message            string      `json:"message"`
}

// QueueStatus is the whole new status of a Queue.
type QueueStatus struct {
	Name string
	// UID protects a later queue of the same name.
	UID    types.UID
	Status v1alpha1.QueueStatus
}

// GroupDeletion is the deletion of a PodGroup as it was when that was decided: one that has changed since, or a later one of the
// same name, stays.
type GroupDeletion struct {
	Namespace, Name string
	UID             types.UID
	ResourceVersion string
}

// PodCondition is one condition of a pod; its other conditions stay as they are.
type PodCondition struct {
	Pod       model.PodRef
	Condition corev1.PodCondition
}

// Event is an event about an object.
type Event struct {
	Regarding corev1.ObjectReference
	// Related is the other object involved; nil when there is none.
	Related *corev1.ObjectReference
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is why, Action what was done, each one word in camel case.
	Reason, Action string
	// Note is the message for the user; it is cut to 1,024 bytes.
	Note string
	// Cycle is the number of the cycle that led to it, as in the log; an annotation of the event has it. Zero is none.
	Cycle uint64
	// At is when it happened.
	At time.Time
}

// OutcomeKind says what an Outcome reports.
type OutcomeKind int8

// The outcomes. Every submitted bind ends in exactly one of Bound, BindFailed and BindUncertain, every nomination in exactly
// one of Nominated and NominationFailed, or in NominationReleased when it releases an earlier one, every eviction in exactly
// one of Evicted and EvictFailed, and every pod of an undo in exactly one of StartUndone and UndoFailed.
const (
	// Bound: the API server confirmed the bind.
	Bound OutcomeKind = iota
	// BindFailed: the pod was not bound by us and no attempt of ours is in flight. What was reserved for it is released.
	BindFailed
	// BindUncertain: an attempt of ours may have taken effect, and the API server does not let us read the pod. The watch
	// will show it: until then the pod must stay assumed.
	BindUncertain
	// Committed: all binds of one decision have an answer.
	Committed
	// Evicted: the pod is terminating, or gone already.
	Evicted
	// EvictFailed: the API server refused the eviction, or it was not sent: because another victim of the same decision was
	// refused, a nomination failed, or the job no longer needs it.
	EvictFailed
	// VictimsGone: all evictions of one decision have an answer.
	VictimsGone
	// Nominated: the pod's status has the nominated node.
	Nominated
	// NominationFailed: the API server refused the nomination, or it is obsolete. No pod is evicted for it.
	NominationFailed
	// NominationReleased: an earlier nomination is released. With a message the write failed, and the pod's status may keep
	// the node.
	NominationReleased
	// WriteFailed: a status of a group, also of another project, or of a queue, or a pod condition, was refused permanently, or the
	// one attempt to delete a group has failed. Events fail silently.
	WriteFailed
	// Obsolete: the CallPrepare of the pod, which is in flight, is no longer needed. The driver may cancel it; its reply is
	// awaited, and the bind's own outcome follows.
	Obsolete
	// Released: the release requested by ReleasePrepared is done.
	Released
	// StartUndone: a pod that was bound is terminating, or gone already.
	StartUndone
	// UndoFailed: the API server refused to delete a pod that was bound.
	UndoFailed
)

var outcomeNames = [...]string{
	"Bound", "BindFailed", "BindUncertain", "Committed", "Evicted", "EvictFailed", "VictimsGone", "Nominated", "NominationFailed",
	"NominationReleased", "WriteFailed", "Obsolete", "Released", "StartUndone", "UndoFailed",
}

// String returns the kind's name.
func (k OutcomeKind) String() string {
	if k < 0 || int(k) >= len(outcomeNames) {
		return "Unknown"
	}
	return outcomeNames[k]
}

// Outcome is a final result.
type Outcome struct {
	Kind OutcomeKind
	// Job is the decision's job; the zero key for WriteFailed.
	Job model.JobKey
	// Cycle is the number of the cycle that made the decision; zero for what is no part of one.
	Cycle uint64
	// Pod is the pod the outcome is about; zero for Committed and VictimsGone and for the WriteFailed of a group or
	// queue.
	Pod model.PodRef
	// Node is the node of the bind, the nominated node, or the node of a pod that is deleted or evicted; empty for other
	// outcomes.
	Node string
	// Prepared reports, for a BindUncertain and for a Bound by a binder of its own, whether something is still reserved for
	// the pod: to be confirmed or released once the result of the bind is known.
	Prepared bool
	// Binder is the binder of the pod; empty is the API server.
	Binder string
	// PodGone reports, for a failure, whether the object, or this incarnation of it, is terminating or gone.
	PodGone bool
	// StaleVersion is, for a BindFailed, the version of the pod in the decision when it is no longer the pod's; empty when it
	// failed for another reason.
	StaleVersion string
	// Refused reports, for an EvictFailed or NominationFailed, whether the API server refused this very call, or did not
	// confirm it in time, rather than another one of the decision; for a BindFailed, whether this very bind was refused, or
	// could not be prepared, so that pod or node are the cause.
	Refused bool
	// Superseded reports, for a NominationFailed or NominationReleased, whether a newer decision about the pod replaced it.
	Superseded bool
	// Duration is, for a Bound, the time from the decision to the API server's confirmation.
	Duration time.Duration
	// Message is the API server's message of a failure; empty otherwise.
	Message string
	// Why is, for an Evicted or EvictFailed, the Message of the eviction; empty when it is for Job.
	Why string
	// Right and Queue are those of the eviction, for the same; empty when the pod goes for a job of its own queue.
	Right model.Right
	Queue string
	// Needs is the decision's minimum of binds; the other numbers count its binds by outcome. Only Committed sets these.
	Needs, Bound, Failed, Uncertain int
	// Victims are the decision's evictions that took effect, in the order of their confirmation; Members is the number of
	// pods that the decision nominated. Only VictimsGone sets these.
	Victims []model.Eviction
	Members int
	// Write is the failed write; zero except for WriteFailed.
	Write Write
}
