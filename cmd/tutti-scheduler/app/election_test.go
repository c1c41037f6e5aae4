package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/internal/lease"
	"github.com/tutti-sched/tutti/internal/scheduler"
)

// lists answers what a new leader asks for, and records what that was and when. The first so many of its answers are failures.
type lists struct {
	mu    sync.Mutex
	fail  int
	asked []string
	at    []time.Time
}

// RoundTrip is a transport without a network, which virtual time would not wait for.
func (l *lists) RoundTrip(request *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what := request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:]
	if version := request.URL.Query().Get("resourceVersion"); version != "" {
		what += " of version " + version
	}
	l.asked, l.at = append(l.asked, what), append(l.at, time.Now())
	status := http.StatusOK
	if l.fail > 0 {
		l.fail--
		status = http.StatusInternalServerError
	}
	kind, version := "PodList", "v1"
	if what == "podgroups" {
		kind, version = "PodGroupList", "scheduling.tutti.dev/v1alpha1"
	}
	text, err := json.Marshal(map[string]any{"kind": kind, "apiVersion": version, "metadata": map[string]any{}, "items": []any{}})
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(text)), Request: request,
	}, err
}

// leases is an API server with the Lease of an identity, with none when that is "none".
func leases(t *testing.T, identity string) coordinationv1client.LeaseInterface {
	t.Helper()
	client := fake.NewClientset().CoordinationV1().Leases("ns")
	if identity == "none" {
		return client
	}
	held := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name, Namespace: "ns"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &identity},
	}
	if _, err := client.Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return client
}

func holderOf(t *testing.T, client coordinationv1client.LeaseInterface) string {
	t.Helper()
	held, err := client.Get(t.Context(), lease.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *held.Spec.HolderIdentity
}

func TestWhoInheritsReadsWhatTheLastLeaderWrote(t *testing.T) {
	for name, c := range map[string]struct {
		holder string
		fail   int
		pause  time.Duration
		asks   []string
	}{
		"no leader before": {"none", 0, 0, nil},
		"given up":         {"", 0, 0, []string{"pods", "podgroups"}},
		"expired":          {"other", 0, lease.Duration + lease.RequestTimeout, []string{"pods", "podgroups"}},
		"a failure":        {"", 1, 0, []string{"pods", "pods", "podgroups"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &lists{fail: c.fail}
				pods, err := kubernetes.NewForConfig(&rest.Config{Transport: api})
				if err != nil {
					t.Fatal(err)
				}
				groups, err := versioned.NewForConfig(&rest.Config{Transport: api})
				if err != nil {
					t.Fatal(err)
				}
				e := &elector{lease.New("ns", "me", systemClock()), leases(t, c.holder)}
				p := &process{election: e, pods: pods, client: groups, mailbox: scheduler.NewMailbox(), schedulerNames: []string{"tutti"}}
				began := time.Now()
				err = e.whileHeld(t.Context(), func(ctx context.Context, elected <-chan struct{}) error {
					<-elected
					_, err := p.waitForTakeover(ctx)
					return err
				})
				if err != nil || !slices.Equal(api.asked, c.asks) || len(api.at) > 0 && api.at[0].Sub(began) < c.pause {
					t.Errorf("asked for %q at %v, having begun at %v; want %q after %s: %v", api.asked, api.at, began, c.asks, c.pause, err)
				}
			})
		})
	}
}

// TestTheLeaseIsHeldUntilAllHasEnded, and given up then.
func TestTheLeaseIsHeldUntilAllHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &elector{lease.New("ns", "me", systemClock()), leases(t, "none")}
		ctx, stop := context.WithCancel(t.Context())
		err := e.whileHeld(ctx, func(ctx context.Context, elected <-chan struct{}) error {
			<-elected
			stop()
			<-ctx.Done()
			<-time.NewTimer(time.Minute).C // the last requests
			if !e.mayWrite() || holderOf(t, e.client.(coordinationv1client.LeaseInterface)) != "me" {
				t.Error("it is not held any more")
			}
			return nil
		})
		if holder := holderOf(t, e.client.(coordinationv1client.LeaseInterface)); err != nil || holder != "" || e.mayWrite() {
			t.Errorf("held by %q, may write is %t: %v", holder, e.mayWrite(), err)
		}
	})
}

// unreachable is an API server that has ceased to answer about Leases.
type unreachable struct{ lease.Client }

func (unreachable) Update(context.Context, *coordinationv1.Lease, metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return nil, errors.New("connection refused")
}

func TestAProcessEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := leases(t, "none")
		e := &elector{lease.New("ns", "me", systemClock()), unreachable{client}}
		began := time.Now()
		err := e.whileHeld(t.Context(), func(ctx context.Context, elected <-chan struct{}) error {
			<-elected
			<-ctx.Done()
			return nil
		})
		if lasted := time.Since(began); !errors.Is(err, lease.ErrLost) || lasted > lease.Duration || holderOf(t, client) != "me" {
			t.Errorf("ends after %s with %v, held by %q", lasted, err, holderOf(t, client))
		}
	})
}

func TestTheOnlyReplicaLeads(t *testing.T) {
	var e *elector
	err := e.whileHeld(t.Context(), func(_ context.Context, elected <-chan struct{}) error {
		<-elected
		return nil
	})
	if err != nil || !e.mayWrite() {
		t.Errorf("may write is %t, %v", e.mayWrite(), err)
	}
}
