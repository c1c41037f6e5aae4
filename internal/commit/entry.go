package commit

import (
	"container/list"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// state is the state of an entry. That of a bind, whose call is CallBind from the start, or once all of its call group are
// prepared:
//
//	Submit ──► (stagePreBind of its group) ──┐
//	                                         ▼
//	   another call of the pod is live ──► waiting
//	                                         │ that one is final
//	                                         ▼
//	               ┌─────────────────────► ready ──── Cancel, deadline ────┐
//	               │                         │ Calls                       │
//	               │ back-off over           ▼                             ▼
//	         backingOff ◄── transient ──── sent ── nil, refused, gone ──► final: Bound, BindFailed or BindUncertain
//	               │                                                       ▲
//	               └──────────────── Cancel, deadline ─────────────────────┘
//
// Other calls have the same states without stagePreBind and, for writes, without deadline. In stagePreBind the same entry is
// a CallPrepare, which has one attempt; and a bind that has failed and had something reserved becomes a CallRelease before it
// is final:
//
//	waiting ──► ready ──► sent ──► awaitingGroup ───────► (stageCalling) ready, as CallBind
//	              │         │ failed  │ another one failed      │ failed, not uncertain
//	              └─────────┴─────────┴──────────┬──────────────┘
//	                                             ▼
//	                         ready, as CallRelease ──► sent ──► final: BindFailed
//
// A bind with nothing reserved is awaitingGroup immediately. The entry of an eviction that deletes is a CallSetCondition and
// then a CallDelete, after a CallEvict that a budget forbids where budgets are asked. A bind that gets no further attempt, and
// may have taken effect, becomes a CallGetPod until the result is known; see read.go.
type state int8

const (
	// waiting: another live call has the same target and goes first.
	waiting state = iota
	// ready: to be sent when its turn comes.
	ready
	// sent: an attempt is in flight.
	sent
	// backingOff: the last attempt failed, the next one is later.
	backingOff
	// awaitingGroup: first of its target, until all of its call group are prepared.
	awaitingGroup
	// final: the result is known, the machine has dropped it.
	final
)

// entry is one call until its final answer, over all its attempts.
//
// Invariant: mayHaveTakenEffect is true once an attempt has ended in a way that leaves open whether it took effect, and stays
// true.
type entry struct {
	call  Call
	state state
	// batch is the call group of the call; nil for writes.
	batch *callGroup
	// since is when the entry became ready for the first time.
	since time.Time
	// notBefore is when an entry that backs off becomes ready again.
	notBefore          time.Time
	mayHaveTakenEffect bool
	// cancelled: the pod was deleted, there is no further attempt.
	cancelled bool
	// refused reports whether there is no further attempt because the API server refused one, or, except for a bind,
	// confirmed none in time.
	refused bool
	// sentAt is when the last attempt was handed out; a worker may send it later. lostAt is when the last reply came that
	// leaves open whether an attempt took effect.
	sentAt, lostAt time.Time
	// outdated reports, for a bind, whether the pod has a newer version than in the decision.
	outdated bool
	// superseded reports, for a nomination, whether a newer decision about the pod has ended it.
	superseded bool
	// victimOf is the eviction that the call is part of; nil for other calls.
	victimOf *model.Eviction
	// message is the error of the last attempt.
	message string
	// obsolete reports whether Obsolete was reported for a CallPrepare in flight.
	obsolete bool
	// holds reports whether something is reserved for the pod; outcome is the bind's outcome once that is released.
	holds   bool
	outcome Outcome
	// orphan reports, for a CallRelease, whether it was requested by ReleaseOrphaned.
	orphan bool
	// at is its place in its turn while it is ready.
	at *list.Element
}

// stage is whether a call group is being prepared or its calls are live.
type stage int8

const (
	// stagePreBind: what must be ready before the first bind (volumes, claims) is being prepared; no bind of the call group
	// is sent, no pod is changed.
	stagePreBind stage = iota
	// stageCalling: the calls of the call group are live.
	stageCalling
)

// callGroup is one part of a decision, its binds, its nominations or its evictions: calls with a common deadline that are
// counted together.
//
// Invariant: open is the number of entries without a final answer, unready that of those that are neither awaitingGroup nor
// final in stagePreBind.
type callGroup struct {
	// kind is CallBind, CallNominate, CallEvict or CallDeleteStarted.
	kind  Kind
	stage stage
	job   model.JobKey
	// cycle is the number of the cycle that decided it.
	cycle uint64
	needs int
	// decided is when the decision was submitted; zero but for binds.
	decided time.Time
	// entries are the calls in the decision's order, the final ones included.
	entries []*entry
	open    int
	unready int
	// nominations are those that evictions wait for, evictions those that wait for nominations; nil when there are none.
	nominations, evictions *callGroup
	// aborted is why nothing more of the call group is to be sent; empty otherwise.
	aborted string
	// deadline is when the call group must be prepared, in stagePreBind; after that, zero until the first call is sent. In
	// either it is no later than until, zero for any.
	deadline, until time.Time
	// expired: the deadline has passed, no further attempt is made. noDeadline: there is none, as for writes.
	expired, noDeadline bool
	// turn has the binds to be sent; see fairQueue.
	turn turn
	// succeeded, failed and uncertain count the final answers.
	succeeded, failed, uncertain int
	// victims are the evictions that took effect.
	victims []model.Eviction
}

// target is what a call changes. Calls of one target are sent one after another.
type target struct {
	uid types.UID
	// event distinguishes events from each other and from changes of the object itself; empty for the latter.
	event string
}

func (e *entry) target() target {
	if e.call.Write != nil {
		_, _, changes := e.call.Write.about()
		return changes
	}
	return target{uid: e.call.Pod.UID}
}
