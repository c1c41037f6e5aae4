package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/internal/lease"
)

// client is an API server that answers after a while, or, cut off, not at all.
type client struct {
	mu     sync.Mutex
	server server
	cut    bool
}

func (c *client) do(ctx context.Context, request *lease.Request) (*coordinationv1.Lease, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.do(request)
}

func (c *client) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, &lease.Request{Verb: lease.Get})
}

func (c *client) Create(ctx context.Context, l *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, &lease.Request{Verb: lease.Create, Lease: l})
}

func (c *client) Update(ctx context.Context, l *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return c.do(ctx, &lease.Request{Verb: lease.Update, Lease: l})
}

func (c *client) holder() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.holder()
}

// bubble is a clock of virtual time.
func bubble() lease.Clock {
	start := time.Now()
	return func() lease.Instant { return lease.Instant{Wall: time.Now().Round(0), Monotonic: time.Since(start)} }
}

func TestRunLeadsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &client{}
		first, second := lease.New("ns", "first", bubble()), lease.New("ns", "second", bubble())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		elected := make(chan string, 2)
		go func() { ended <- first.Run(ctx, c, func() { elected <- "first" }) }()
		if by := <-elected; by != "first" || !first.MayWrite() {
			t.Errorf("%s is elected, may write is %t", by, first.MayWrite())
		}
		go func() { ended <- second.Run(t.Context(), c, func() { elected <- "second" }) }()
		<-time.NewTimer(time.Hour).C
		if len(elected) > 0 || c.holder() != "first" || !first.MayWrite() {
			t.Errorf("held by %s after an hour, may write is %t", c.holder(), first.MayWrite())
		}
		stopped := time.Now()
		stop()
		if err := <-ended; err != nil || first.MayWrite() {
			t.Errorf("ends with %v, may write is %t", err, first.MayWrite())
		}
		if by := <-elected; by != "second" || time.Since(stopped) > lease.Period || !second.MayWrite() {
			t.Errorf("%s is elected after %s, may write is %t", by, time.Since(stopped), second.MayWrite())
		}
		c.mu.Lock()
		c.cut = true
		c.mu.Unlock()
		cut := time.Now()
		if err := <-ended; !errors.Is(err, lease.ErrLost) || time.Since(cut) > lease.Duration {
			t.Errorf("cut off, it ends with %v after %s", err, time.Since(cut))
		}
	})
}
