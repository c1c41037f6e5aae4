package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// The times of the Lease. A leader gives up when it could not renew it for renewDeadline, and sends nothing from then on; what it
// has sent by then ends within requestTimeout, and so within the Lease.
const (
	leaseName     = "tutti-scheduler"
	leaseDuration = 15 * time.Second
	renewDeadline = leaseDuration - requestTimeout
	retryPeriod   = 500 * time.Millisecond // by client-go, who waits to be elected looks at the Lease after 1 to 2.2 of these
)

// inClusterNamespace is where a pod reads which namespace it is in.
const inClusterNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// lease is the lock of the election, and knows what the election does not tell: until when it holds, and from when on its holder
// may write. The election and the workers call it, many at once.
//
// Invariant: MayWrite is false from requestTimeout before the end of the Lease as this process knows it, so that no request of one
// leader is under way when the next one begins.
type lease struct {
	resourcelock.Interface
	clock clock.Clock

	mu sync.Mutex
	// renewed is when the last renewal was sent that the API server confirmed; zero while the Lease is not held.
	renewed time.Time
	// holder is who held the Lease when it was last read or written, empty when nobody did. left tells that it was somebody else's
	// before, and not given up: also once this process has read that it is its own, of which no reply may have told it.
	holder   string
	released bool
	// hasLed tells that this process has held the Lease, lost that it was not its own at some time after that.
	hasLed, lost bool
	// seen is when the last renewal of somebody else was first read, and shown when that one says it was. Its requests can be under
	// way until the Lease that it renewed then has ended.
	seen  time.Time
	shown metav1.Time
	// found tells that there was a Lease before this process came to hold it.
	found bool
	// leadFrom is from when on this process may write.
	leadFrom time.Time
}

// newLease returns the lock; nothing is asked of the API server yet. stop ends its telling of events.
func newLease(config *rest.Config, namespace string) (l *lease, stop func(), err error) {
	config = rest.AddUserAgent(config, "leader-election")
	config.Timeout = renewDeadline / 2 // so that one request without answer does not end the leadership
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("client for the Lease: %w", err)
	}
	if namespace == "" {
		text, err := os.ReadFile(inClusterNamespace)
		if err != nil {
			return nil, nil, fmt.Errorf("namespace of the Lease: %w; say --leader-elect-namespace outside a cluster", err)
		}
		namespace = strings.TrimSpace(string(text))
	}
	identity := instance() + "_" + string(uuid.NewUUID())
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.CoreV1().Events("")})
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, leaseName, client.CoreV1(), client.CoordinationV1(),
		resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: identity}),
		})
	if err != nil {
		events.Shutdown()
		return nil, nil, fmt.Errorf("lease %s/%s: %w", namespace, leaseName, err)
	}
	return &lease{Interface: lock, clock: clock.RealClock{}}, events.Shutdown, nil
}

// Get reads the Lease. The election compares its text to tell a renewal, and in the text that client-go makes times are cut to
// seconds: of two renewals in one second it would see the first only, and hold the Lease to have ended up to a second early.
func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	held, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.holder, l.found = held.HolderIdentity, true
		if l.holder != l.Identity() {
			l.renewed, l.released, l.lost = time.Time{}, l.holder != "", l.lost || l.hasLed
			if l.seen.IsZero() || !held.RenewTime.Equal(&l.shown) {
				l.seen, l.shown = l.clock.Now(), held.RenewTime
			}
		}
		raw = held.RenewTime.AppendFormat(raw, time.RFC3339Nano)
	}
	return held, raw, err
}

// errLost says that this process will not lead any more: somebody else may have led since, and written what it has not read.
var errLost = errors.New("it was not this process's at some time since it led: it has to start anew")

// Create makes the Lease. There may have been one before that somebody has deleted, and whose holder does not know of it yet.
func (l *lease) Create(ctx context.Context, held resourcelock.LeaderElectionRecord) error {
	if l.hasLost() {
		return errLost
	}
	sent := l.clock.Now()
	err := l.Interface.Create(ctx, held)
	l.recordWrite(held, sent, err)
	return err
}

// errHeldByOther says that a Lease was not given up.
var errHeldByOther = errors.New("it is not held any more, or has not been renewed for long: it is left to expire")

// Update acquires the Lease, renews it or gives it up.
func (l *lease) Update(ctx context.Context, held resourcelock.LeaderElectionRecord) error {
	if held.HolderIdentity != l.Identity() && !l.canRelease() {
		return errHeldByOther
	}
	if l.hasLost() {
		return errLost
	}
	sent := l.clock.Now()
	err := l.Interface.Update(ctx, held)
	l.recordWrite(held, sent, err)
	return err
}

// canRelease ends all writing, and tells whether the Lease may then be given up, so that the next leader begins at once. The election
// gives it up also when it could not renew it in time, as after this process was frozen, and by then it may be that of somebody
// else, whom it would be taken from. And requests may be under way then, for which the next leader has to wait: it does so after a
// Lease that has expired.
func (l *lease) canRelease() bool {
	may := l.MayWrite()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.renewed = time.Time{}
	return may && l.holder == l.Identity()
}

func (l *lease) hasLost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// recordWrite takes note of what became of a write. The Lease counts from when the write was sent: it cannot have begun before.
func (l *lease) recordWrite(held resourcelock.LeaderElectionRecord, sent time.Time, err error) {
	if err != nil || held.HolderIdentity != l.Identity() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.renewed.IsZero() {
		l.leadFrom = sent
		if l.released {
			// It has not been given up by who had nothing under way any more: it has expired, or was deleted. Its last holder may have
			// believed in it until its end, by this machine's clock, whenever the election came to look; the margin is for what that
			// one may have sent by its own clock.
			l.leadFrom = l.seen.Add(leaseDuration + requestTimeout)
		}
	}
	l.renewed, l.holder, l.hasLed = sent, l.Identity(), true
}

// MayWrite tells whether the Lease will hold for as long as a request may take. It asks both the time that has passed and the clock
// on the wall: the first stands still while a machine sleeps, the second may be set back.
func (l *lease) MayWrite() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if l.renewed.IsZero() || now.Before(l.leadFrom) {
		return false
	}
	passed := max(now.Sub(l.renewed), now.Round(0).Sub(l.renewed.Round(0)))
	return passed < leaseDuration-requestTimeout
}

// takeoverDelay returns how long to wait before this process may lead, and whether somebody else may have led before: what that one
// has written is then to be read once more.
func (l *lease) takeoverDelay() (wait time.Duration, inherited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(0, l.leadFrom.Sub(l.clock.Now())), l.found
}
