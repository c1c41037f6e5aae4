package commit

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// Kind is what a call does. Kinds are ordered by precedence, the most urgent first; the first two go their own way, see
// Options.Preparing.
type Kind int8

// The kinds of calls.
const (
	// CallPrepare tells the API server of what was set aside for a pod, and waits until it is ready; see Preparer.
	CallPrepare Kind = iota
	// CallRelease gives back what was set aside for a pod that will not be bound; see Preparer.
	CallRelease
	// CallGetPod asks on which node a pod is, when the answer to a bind was lost: one GET on pods, of what a quorum of etcd says.
	CallGetPod
	// CallDeleteStarted deletes a pod that was bound for a gang which did not start, or starts anew: one DELETE on pods.
	CallDeleteStarted
	// CallBind binds a pod to a node: one POST on pods/binding.
	CallBind
	// CallNominate says in a pod's status on which node room is kept for it, or that none is any more: one PATCH on pods/status.
	CallNominate
	// CallEvict evicts a pod: one POST on pods/eviction.
	CallEvict
	// CallSetCondition says in a pod's status for whom it is about to be deleted: one PATCH on pods/status.
	CallSetCondition
	// CallDelete deletes a pod with the grace it asks for: one DELETE on pods.
	CallDelete
	// CallGroupStatus replaces the status of a PodGroup: one PATCH on podgroups/status.
	CallGroupStatus
	// CallPodCondition sets one condition of a pod: one PATCH on pods/status.
	CallPodCondition
	// CallEvent records an event, best effort: one POST on events.
	CallEvent
	kinds
)

var kindNames = [kinds]string{
	"Prepare", "Release", "Read", "Undo", "Bind", "Promise", "Evict", "Mark", "Delete", "GroupStatus", "PodCondition", "Event",
}

// String returns the kind's name.
func (k Kind) String() string {
	if k < 0 || k >= kinds {
		return "Unknown"
	}
	return kindNames[k]
}

// prepares tells whether a call of this kind goes to the Preparer.
func (k Kind) prepares() bool { return k <= CallRelease }

// hasPriority tells whether a call of this kind goes before all that tell about decisions, and needs no patience.
func (k Kind) hasPriority() bool { return k <= CallBind }

// isDecision tells whether a call of this kind carries out a decision, rather than telling about it.
func (k Kind) isDecision() bool { return k <= CallDelete }

// evicts tells whether a call of this kind is one of those that end a victim.
func (k Kind) evicts() bool { return k >= CallEvict && k <= CallDelete }

// CallID names one attempt of a call. A Reply carries it back; no two attempts share one.
type CallID uint64

// Call is one request to be sent, plain data. Whoever receives one must not change what it points to.
type Call struct {
	ID   CallID
	Kind Kind
	// Attempt counts from 1.
	Attempt int
	// Job is whose decision this is; the zero key for writes.
	Job model.JobKey
	// Pod is the pod to prepare, to bind, to read, to delete, to promise room to or to evict; for a pod condition, the pod it is
	// about.
	Pod model.PodRef
	// Node is where CallPrepare and CallBind will have the pod, and CallGetPod asks whether it is, where CallNominate keeps room for
	// it, empty when it does so no more, and where the pod of an undo or of an eviction is; empty for the other kinds, but that
	// CallRelease may have it.
	Node string
	// Binder names who is asked to bind the pod; empty is the API server.
	Binder string
	// Isolated is what CallBind writes in one transaction with the node, and of which version of the pod; nil when there is nothing
	// but the node, for any version.
	Isolated *model.Isolation
	// Write is what CallSetCondition and the kinds that decide nothing write; zero for the others.
	Write Write
}

// Reply is the answer to one call, plain data.
type Reply struct {
	ID CallID
	// Err is nil when the API server confirmed the call, a CallGetPod that the pod is on Call.Node; else what the client returned.
	// An *errors.StatusError of apimachinery is read for its code, reason and Retry-After; ErrNotLeading says that nothing was
	// sent; ErrNotBound and ErrElsewhere are answers to a CallGetPod; of any other error it is assumed that the call may have
	// taken effect.
	Err error
}

// Write is one write that decides nothing. Exactly one field is set. Machine and driver share it: nobody changes it.
type Write struct {
	Group     *GroupStatus
	Condition *PodCondition
	Event     *Event
}

// kind returns the kind of the call that carries the write.
func (w Write) kind() Kind {
	switch {
	case w.Group != nil:
		return CallGroupStatus
	case w.Condition != nil:
		return CallPodCondition
	default:
		return CallEvent
	}
}

// GroupStatus is the whole status that a PodGroup is to have.
type GroupStatus struct {
	Namespace, Name string
	// UID keeps the status from reaching a later group of the same name.
	UID    types.UID
	Status v1alpha1.PodGroupStatus
}

// PodCondition is one condition that a pod is to have; other conditions of the pod stay as they are.
type PodCondition struct {
	Pod       model.PodRef
	Condition corev1.PodCondition
}

// Event is something to tell about an object.
type Event struct {
	Regarding corev1.ObjectReference
	// Related is the other object involved; nil when there is none.
	Related *corev1.ObjectReference
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type string
	// Reason is why, Action what was done, each one word in camel case.
	Reason, Action string
	// Note is the sentence for the user; what exceeds 1,024 bytes is cut.
	Note string
	// At is when it happened.
	At time.Time
}

// OutcomeKind says what an Outcome reports.
type OutcomeKind int8

// The outcomes. Every submitted bind ends in exactly one of Bound, BindFailed and BindUncertain, every promise in exactly one
// of Promised and NominationFailed, or in Lapsed when it takes an earlier one back, every eviction in exactly one of Evicted and
// EvictFailed, and every pod of an undo in exactly one of Undone and UndoFailed.
const (
	// Bound: the API server confirmed the bind.
	Bound OutcomeKind = iota
	// BindFailed: the pod was not bound by us and no attempt of ours is under way. What was set aside for it is given back.
	BindFailed
	// BindUncertain: an attempt of ours may or may not have taken effect, and the API server does not let us read what became of
	// it. The watch will tell: until then the pod must stay assumed.
	BindUncertain
	// Committed: all binds of one decision have an answer.
	Committed
	// Evicted: the pod is going, or gone already.
	Evicted
	// EvictFailed: the API server refused the eviction, or it was not sent: because another victim of the same decision was
	// refused, room could not be promised, or the job it was for does without.
	EvictFailed
	// Cleared: all evictions of one decision have an answer.
	VictimsGone
	// Promised: the pod's status says where room is kept for it.
	Nominated
	// NominationFailed: the API server refused to write the promise down, or it has become pointless. Nobody is evicted for it.
	NominationFailed
	// Lapsed: an earlier promise is taken back. With a message the API server could not be told, and the pod may go on saying
	// where room was kept for it.
	NominationReleased
	// WriteFailed: a group status or a pod condition was refused for good. Events fail silently.
	WriteFailed
	// Pointless: the CallPrepare of the pod, which is under way, serves nothing any more. Whoever carries it out may end it;
	// its reply is waited for, and the bind's own outcome follows.
	Obsolete
	// Released: what ReleaseNominations asked for is done.
	Released
	// Undone: a pod that was bound is being deleted, or gone already.
	StartUndone
	// UndoFailed: the API server refused to delete a pod that was bound.
	UndoFailed
)

var outcomeNames = [...]string{
	"Bound", "BindFailed", "BindUncertain", "Committed", "Evicted", "EvictFailed", "Cleared", "Promised", "PromiseFailed",
	"Lapsed", "WriteFailed", "Pointless", "Released", "Undone", "UndoFailed",
}

// String returns the kind's name.
func (k OutcomeKind) String() string {
	if k < 0 || int(k) >= len(outcomeNames) {
		return "Unknown"
	}
	return outcomeNames[k]
}

// Outcome is something that has become final.
type Outcome struct {
	Kind OutcomeKind
	// Job is whose decision it was; the zero key for WriteFailed.
	Job model.JobKey
	// Pod is the pod the outcome is about; zero for Committed and Cleared and for a group's WriteFailed.
	Pod model.PodRef
	// Node is where the bind would have the pod, where room is kept for it, or where a pod is that is deleted or evicted; empty
	// for other outcomes.
	Node string
	// Prepared tells, of a BindUncertain and of a Bound by a binder of its own, that something is still set aside for the pod:
	// to be confirmed or given back once it is known what became of the bind.
	Prepared bool
	// Binder is who was asked to bind the pod; empty is the API server.
	Binder string
	// PodGone tells of a failure that the object, or this incarnation of it, is being deleted or no longer exists.
	PodGone bool
	// StaleVersion is, of a BindFailed, the version of the pod that it was decided on and that is not the pod's any more; empty when
	// it failed for another reason.
	StaleVersion string
	// Refused tells of an EvictFailed or NominationFailed that it is this very call which the API server refused, or did not
	// confirm in time, rather than another one of the decision; and of a BindFailed that this very bind was refused, or could
	// not be prepared, so that pod or node are at fault.
	Refused bool
	// Superseded tells of a NominationFailed or Lapsed that a newer decision about the pod has taken its place.
	Superseded bool
	// Duration is, of a Bound, how long it was from the decision until the API server had confirmed it.
	Duration time.Duration
	// Message says why it failed, in the API server's words; empty when it did not.
	Message string
	// Why is that of the Eviction, of an Evicted or EvictFailed; empty when it is for the sake of Job.
	Why string
	// Needs is the decision's Needs; the numbers behind it count its binds by outcome. Only Committed sets these.
	Needs, Bound, Failed, Uncertain int
	// Victims are the decision's evictions that took effect, in the order in which that was confirmed; Members is for how many
	// pods the decision made promises. Only Cleared sets these.
	Victims []model.Eviction
	Members int
	// Write is what failed to be written; zero but for WriteFailed.
	Write Write
}
