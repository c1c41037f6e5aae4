package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tutti-sched/tutti/internal/lease"
)

// work is a loop whose steps are counted.
type work struct {
	count uint64
	busy  bool
}

func (w *work) progress() (uint64, bool) { return w.count, w.busy }

// ticks returns after how many ticks the work counts as stuck, most when it does not.
func ticks(watchdog *lease.Watchdog, most int, before func(tick int)) int {
	for tick := range most {
		before(tick)
		if err := watchdog.Tick(); err != nil {
			return tick
		}
	}
	return most
}

func TestWorkThatDoesNotGoOnIsStuck(t *testing.T) {
	const limit, most = 2 * time.Second, 100
	perLimit := int(limit / lease.WatchPeriod)
	for name, c := range map[string]struct {
		before func(w *work, tick int)
		want   int
	}{
		"hangs in its first step": {func(w *work, _ int) { w.count, w.busy = 1, true }, perLimit},
		"hangs later": {func(w *work, tick int) {
			if w.busy = true; tick < 10 {
				w.count++
			}
		}, 9 + perLimit},
		"has nothing to do":             {func(*work, int) {}, most},
		"does one thing after another":  {func(w *work, _ int) { w.busy = true; w.count++ }, most},
		"takes long, and not too long":  {func(w *work, tick int) { w.busy, w.count = true, 1+uint64(tick/perLimit) }, most},
		"takes longer than it may once": {func(w *work, tick int) { w.busy, w.count = true, 1+uint64(tick/(perLimit+1)) }, perLimit},
	} {
		w := &work{}
		if got := ticks(lease.NewWatchdog(limit, w.progress), most, func(tick int) { c.before(w, tick) }); got != c.want {
			t.Errorf("work that %s: stuck after %d ticks, want %d", name, got, c.want)
		}
	}
}

// TestAPauseIsOneTick: a process that was stopped in the middle of a step, for however long, goes on.
func TestAPauseIsOneTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := &work{count: 1, busy: true}
		stopped := false
		watchdog := lease.NewWatchdog(time.Minute, func() (uint64, bool) {
			if !stopped { // the machine sleeps for an hour, in which its timers run out
				stopped = true
				<-time.NewTimer(time.Hour).C
			}
			return w.progress()
		})
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- watchdog.Run(ctx) }()
		err := <-ended
		if lasted := time.Since(began); !errors.Is(err, lease.ErrStuck) || lasted < time.Hour+time.Minute-2*lease.WatchPeriod {
			t.Errorf("stuck after %s with %v, want a minute after the pause", lasted, err)
		}
		stop()
	})
}

// TestAStuckLeaderLetsTheLeaseExpire: it writes nothing from then on, renews nothing, and gives nothing up.
func TestAStuckLeaderLetsTheLeaseExpire(t *testing.T) {
	s := &server{}
	c := newCandidate(t, s)
	c.acquire()
	version := s.version
	c.Abandon()
	if request, _, err := c.Next(); request != nil || !errors.Is(err, lease.ErrLost) || c.MayWrite() || c.Held() || c.GiveUp() != nil {
		t.Errorf("it goes on with %v and %v; may write is %t", request, err, c.MayWrite())
	}
	if s.version != version || s.holder() != "me" {
		t.Errorf("the Lease is held by %q", s.holder())
	}
}
