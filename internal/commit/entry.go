package commit

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/pkg/model"
)

// state is where an entry is in its life. A bind's, whose call is CallBind from the start, or when all of its batch are
// prepared:
//
//	Submit ──► (stagePreBind of its batch) ──┐
//	                                         ▼
//	   another call of the pod is live ──► waiting
//	                                         │ that one is final
//	                                         ▼
//	               ┌─────────────────────► ready ──── Cancel, deadline ────┐
//	               │                         │ Calls                       │
//	               │ back-off over           ▼                             ▼
//	            resting ◄── transient ──── sent ── nil, refused, gone ──► final: Bound, BindFailed or BindUncertain
//	               │                                                       ▲
//	               └──────────────── Cancel, deadline ─────────────────────┘
//
// Other calls live the same life without stage and, writes, without deadline. In stagePreBind the same entry carries
// CallPrepare, which has one attempt; and a bind that has failed and had something set aside carries CallRelease before it is
// final:
//
//	waiting ──► ready ──► sent ──► parked ──────────────► (stageCalling) ready, as CallBind
//	              │         │ failed  │ another one failed      │ failed, not uncertain
//	              └─────────┴─────────┴──────────┬──────────────┘
//	                                             ▼
//	                         ready, as CallRelease ──► sent ──► final: BindFailed
//
// A bind with nothing set aside is parked at once. The entry of an eviction that deletes carries CallSetCondition and then CallDelete.
// A bind that gets no further attempt, and of which one may have taken effect, carries CallGetPod until it is known; see read.go.
type state int8

const (
	// waiting: another live call has the same target and goes first.
	waiting state = iota
	// ready: to be sent as soon as its turn comes.
	ready
	// sent: an attempt is in flight.
	sent
	// resting: the last attempt failed, the next one is for later.
	backingOff
	// parked: first of its line, until all of its batch are prepared.
	awaitingGroup
	// final: the answer is known, the machine keeps nothing of it.
	final
)

// entry is one call on its way to a final answer, over all its attempts.
//
// Invariant: maybe is true once an attempt has ended in a way that leaves open whether it took effect, and stays true.
type entry struct {
	call  Call
	state state
	// batch is the part of a decision the call belongs to; nil for writes.
	batch *callGroup
	// since is when the entry became ready for the first time.
	since time.Time
	// notBefore is when a resting entry becomes ready again.
	notBefore          time.Time
	mayHaveTakenEffect bool
	// cancelled: the pod was deleted, there is no further attempt.
	cancelled bool
	// refused tells that there is no further attempt because the API server refused one, or, but for a bind, confirmed none in
	// time.
	refused bool
	// sentAt is when the last attempt was handed out; it may be later that a worker sends it. lostAt is when it was heard that the
	// last of those attempts has no answer which may have taken effect.
	sentAt, lostAt time.Time
	// outdated tells of a bind that the pod is not in the version any more that it was decided on.
	outdated bool
	// superseded tells of a promise that a newer decision about the pod has ended it.
	superseded bool
	// victimOf is what the calls of an eviction carry out; nil for other calls.
	victimOf *model.Eviction
	// message is the error of the last attempt.
	message string
	// obsolete tells that it was said of a CallPrepare in flight that it serves nothing any more.
	obsolete bool
	// holds tells that something is set aside for the pod; outcome is what the bind ends in when that is given back.
	holds   bool
	outcome Outcome

	next, previous *entry
}

// stage is where a batch is before and while its calls are live.
type stage int8

const (
	// stagePreBind: what must be ready before the first bind (volumes, claims) is being prepared; no bind of the batch goes
	// out, no pod is touched.
	stagePreBind stage = iota
	// stageCalling: the calls of the batch are live.
	stageCalling
)

// callGroup is one part of a decision, its binds, its promises or its evictions: what shares one deadline and is counted together.
//
// Invariant: open is the number of entries without a final answer, unready that of those that are neither parked nor final
// in stagePreBind.
type callGroup struct {
	// kind is CallBind, CallNominate, CallEvict or CallDeleteStarted.
	kind  Kind
	stage stage
	job   model.JobKey
	needs int
	// decided is when the decision was submitted; zero but for binds.
	decided time.Time
	// entries are the batch's calls in the decision's order, the final ones included.
	entries []*entry
	open    int
	unready int
	// nominations are those that evictions wait for, evictions those that wait for promises; nil when there are none.
	nominations, evictions *callGroup
	// aborted is why nothing more of the batch is to be sent; empty while all goes well.
	aborted string
	// deadline is when the batch must be prepared, in stagePreBind; after that, zero until the first call is sent. In either it is no
	// later than until, zero for any.
	deadline, until time.Time
	// expired: the deadline has passed, no further attempt is made. patient: there is none, as for writes.
	expired, noDeadline bool
	// ready are the binds to be sent, served counts those that went out in this turn; see turns, whose links the others are.
	ready            fifo
	lastSent         int
	waitsFor, blocks *callGroup
	// succeeded, failed and uncertain count the final answers.
	succeeded, failed, uncertain int
	// victims are the evictions that took effect.
	victims []model.Eviction
}

// target is what a call changes. Calls of one target go out one after another.
type target struct {
	uid types.UID
	// event tells events apart from each other and from changes of the object itself; empty for the latter.
	event string
}

func (e *entry) target() target {
	switch {
	case e.call.Write.Group != nil:
		return target{uid: e.call.Write.Group.UID}
	case e.call.Write.Event != nil:
		event := e.call.Write.Event
		return target{uid: event.Regarding.UID, event: event.Reason + "/" + event.Regarding.Namespace + "/" + event.Regarding.Name}
	default:
		return target{uid: e.call.Pod.UID}
	}
}
