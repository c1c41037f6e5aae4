package lease

import (
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The times of the Lease. A fail-over after a crash takes Duration and RequestTimeout, and the time until the end is noticed.
const (
	// Name is that of the Lease.
	Name = "tutti-scheduler"
	// Duration is for how long a Lease holds from its last renewal.
	Duration = 15 * time.Second
	// RequestTimeout bounds each request of a leader, its answer included. It is the margin before the end of a Lease, in which its
	// holder sends nothing more, and after it, in which the next leader sends nothing yet.
	RequestTimeout = 3 * time.Second
	// Period is the time between two renewals, and between two looks of a process that waits to be elected.
	Period = 500 * time.Millisecond
)

// Instant is one moment on the two clocks of a machine.
type Instant struct {
	// Wall may be set, forward and back, and goes on while the machine sleeps.
	Wall time.Time
	// Monotonic is the time since any fixed moment. It is never set, and stands still while the machine sleeps.
	Monotonic time.Duration
}

// since returns how much time has passed, by the clock that says more.
func (i Instant) since(earlier Instant) time.Duration {
	return max(i.Monotonic-earlier.Monotonic, i.Wall.Sub(earlier.Wall))
}

// Clock reads both clocks. The election calls it on any goroutine.
type Clock func() Instant

// Verb is what a request asks of the API server.
type Verb string

// The verbs.
const (
	Get    Verb = "get"
	Create Verb = "create"
	Update Verb = "update"
)

// Request is one request about the Lease.
type Request struct {
	Verb Verb
	// Lease is what is to be stored, with the version that it replaces; nil for Get.
	Lease *coordinationv1.Lease
	// sent is when it was made: a renewal cannot have begun before.
	sent Instant
}

// ErrLost says that this process held the Lease and must never lead again: another one may have led since, and written what
// this one has not read.
var ErrLost = errors.New("the Lease was lost; the process has to start again")

// Election takes part in the election on behalf of one process. One goroutine calls Next and Answer in turn; MayWrite and the
// rest are safe for concurrent use.
//
// Invariant: MayWrite is false from RequestTimeout before the end of the Lease as this process knows it, and until
// RequestTimeout after the end of the Lease that another one held before. Invariant: once lost, it is never held again.
type Election struct {
	namespace, identity string
	clock               Clock

	mu sync.Mutex
	// next is the request to make at due, by the monotonic clock; stored is the Lease that an update replaces.
	next   Verb
	due    time.Duration
	stored *coordinationv1.Lease
	// held says that this process holds the Lease and has not seen that it lost it; renewed is when the last renewal was sent
	// that the API server confirmed.
	held, lost bool
	renewed    Instant
	// begins is from when on the holder may write, by the monotonic clock.
	begins time.Duration
	// found says that there was a Lease before this process held it. expires is when the Lease of another process ends at the
	// latest, by the monotonic clock, and version is its last renewal; expires is zero when no other process held it, or it was
	// given up.
	found   bool
	expires time.Duration
	version string
}

// New returns an election that begins with the first call of Next. No two processes have the same identity, nor two lives of
// one.
func New(namespace, identity string, clock Clock) *Election {
	return &Election{namespace: namespace, identity: identity, clock: clock, next: Get, due: clock().Monotonic}
}

// Next returns the request that is due, to which Answer is called before the next Next; or nil, and for how long there is
// none. It returns ErrLost when this process must end.
func (e *Election) Next() (*Request, time.Duration, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	if e.held && now.Monotonic-e.renewed.Monotonic >= Duration-RequestTimeout {
		// It was not renewed in time. Requests are held back already; what another one has written meanwhile is not known.
		e.held, e.lost = false, true
	}
	if e.lost {
		return nil, 0, ErrLost
	}
	if wait := e.due - now.Monotonic; wait > 0 {
		return nil, wait, nil
	}
	e.due = now.Monotonic + Period
	request := &Request{Verb: e.next, sent: now}
	if e.next != Get {
		request.Lease = e.claim(now)
	}
	return request, 0, nil
}

// claim is the Lease as this process would hold it.
func (e *Election) claim(now Instant) *coordinationv1.Lease {
	claimed := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: Name}}
	if e.next == Update {
		claimed = e.stored.DeepCopy()
	}
	at := metav1.NewMicroTime(now.Wall)
	if holder(claimed) != e.identity {
		if claimed.Spec.LeaseTransitions == nil {
			claimed.Spec.LeaseTransitions = new(int32)
		} else {
			*claimed.Spec.LeaseTransitions++
		}
		claimed.Spec.AcquireTime = &at
	}
	claimed.Spec.HolderIdentity, claimed.Spec.RenewTime = new(e.identity), &at
	claimed.Spec.LeaseDurationSeconds = new(int32(Duration / time.Second))
	return claimed
}

func holder(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

// Answer takes what came of a request: the Lease as it is stored, or the error. It returns an error when the request failed
// in a way that is worth a line in the log.
func (e *Election) Answer(request *Request, stored *coordinationv1.Lease, err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	switch {
	case e.lost:
	case request.Verb == Get && apierrors.IsNotFound(err):
		e.next, e.due = Create, now.Monotonic
	case err != nil:
		e.next = Get // another one may have written, or the answer alone was lost
		if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("%s of the Lease %s/%s: %w", request.Verb, e.namespace, Name, err)
	case request.Verb == Get:
		e.read(stored, now)
	case !e.held && now.since(request.sent) >= Duration-RequestTimeout:
		e.next = Get // the Lease has ended, or is about to; another one may hold it by now
	default:
		e.wrote(request, stored)
	}
	return nil
}

// read takes the Lease as it is stored, and decides whether this process claims it.
func (e *Election) read(stored *coordinationv1.Lease, now Instant) {
	e.found, e.stored = true, stored
	switch by := holder(stored); {
	case by == e.identity: // it is renewed, or was taken by a request whose answer was lost
	case e.held:
		e.held, e.lost = false, true
		return
	case by == "":
		e.expires = 0
	case e.expires == 0 || stored.ResourceVersion != e.version:
		e.version, e.expires = stored.ResourceVersion, now.Monotonic+Duration
		return
	case now.Monotonic < e.expires:
		return
	}
	e.next, e.due = Update, now.Monotonic
}

// wrote takes a Lease that this process has come to hold, or has renewed.
func (e *Election) wrote(request *Request, stored *coordinationv1.Lease) {
	e.next, e.stored = Update, stored
	if !e.held {
		e.held, e.begins = true, request.sent.Monotonic
		if e.expires > 0 {
			// The last holder did not give it up, which it does only with no request in flight: the Lease has expired, or was deleted.
			// What the holder sent last, by its own clock, has ended by then.
			e.begins = e.expires + RequestTimeout
		}
	}
	e.renewed = request.sent
}

// Held reports whether this process holds the Lease, be it too early or too late to write.
func (e *Election) Held() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// MayWrite reports whether the Lease will hold for as long as a request may take. It is asked right before each request.
func (e *Election) MayWrite() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mayWrite(e.clock())
}

func (e *Election) mayWrite(now Instant) bool {
	return e.held && now.Monotonic >= e.begins && now.since(e.renewed) < Duration-RequestTimeout
}

// TakeOver returns how long the holder has to wait before it may lead, and whether another one may have led before: what that
// one has written is then to be read once more.
func (e *Election) TakeOver() (wait time.Duration, inherited bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(0, e.begins-e.clock().Monotonic), e.found
}

// Abandon ends all writing for good, and lets the Lease expire: what this process has under way, and in which state it is, is not
// known.
func (e *Election) Abandon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.lost = false, true
}

// GiveUp ends all writing for good. It returns the request by which the Lease is given up, so that the next leader begins
// without waiting; nil when it is left to expire, since it may be another's by now, or requests may be under way.
//
// The caller sees to it that no request of this process is under way.
func (e *Election) GiveUp() *Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock()
	may := e.mayWrite(now) && e.next == Update
	e.held, e.lost = false, true
	if !may {
		return nil
	}
	released, at := e.stored.DeepCopy(), metav1.NewMicroTime(now.Wall)
	released.Spec.HolderIdentity, released.Spec.RenewTime = new(""), &at
	return &Request{Verb: Update, Lease: released, sent: now}
}
