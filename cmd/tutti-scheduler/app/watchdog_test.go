package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tutti-sched/tutti/internal/lease"
)

// TestAStuckProcessEnds without waiting for what hangs. It has stopped to write and to renew, and has not given the Lease up.
func TestAStuckProcessEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := leases(t, "none")
		e := &elector{lease.New("ns", "me", systemClock()), client}
		released := make(chan struct{})
		began := time.Now()
		watchdog := lease.NewWatchdog(time.Minute, func() (uint64, bool) { return 7, true })
		err := unlessStuck(t.Context(), watchdog, e, func(ctx context.Context) error {
			return e.whileHeld(ctx, func(context.Context, <-chan struct{}) error {
				<-released // a plugin that does not return
				return nil
			})
		})
		if lasted := time.Since(began); !errors.Is(err, lease.ErrStuck) || lasted > time.Minute+2*lease.WatchPeriod {
			t.Errorf("ends after %s with %v", lasted, err)
		}
		if holder := holderOf(t, client); holder != "me" || e.mayWrite() {
			t.Errorf("held by %q, may write is %t", holder, e.mayWrite())
		}
		close(released)
		synctest.Wait()
	})
}

func TestTheLimitOfAStepIsChecked(t *testing.T) {
	_, err := execute(t, "--step-limit=1s")
	if err == nil || !strings.Contains(err.Error(), "--step-limit 1s: must be at least 5s") {
		t.Errorf("error %v", err)
	}
}

func TestTheStackOfTheLoopIsFound(t *testing.T) {
	if stack := stackOf("app.TestTheStackOfTheLoopIsFound("); !strings.Contains(stack, "goroutine ") {
		t.Errorf("found %q", stack)
	}
	if stack := stackOf("app.noSuchFunction" + "("); stack != "" {
		t.Errorf("found %q", stack)
	}
}
