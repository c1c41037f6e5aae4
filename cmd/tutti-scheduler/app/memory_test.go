package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{{0, 400}, {10 << 20, 400}, {48 << 20, 200}, {96 << 20, 100}, {160 << 20, 60}, {1 << 30, 40}} {
		if got := gcPercent(c.inUse); got != c.want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", c.inUse>>20, got, c.want)
		}
	}
}

// TestThePercentageFollowsTheHeap after the first lists have been read, too.
func TestThePercentageFollowsTheHeap(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	pass := func(span time.Duration) { // of the virtual clock
		<-time.NewTimer(span).C
		synctest.Wait()
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan struct{})
		close(read)
		go tuneGC(ctx, read)
		pass(startupPeriod + steadyInterval)
		held := make([]byte, 300<<20)
		runtime.GC()
		pass(steadyInterval)
		if got := debug.SetGCPercent(100); got > 100 {
			t.Errorf("the percentage with 300 MiB in use is %d", got)
		}
		runtime.KeepAlive(held)
		cancel()
	})
}

func TestWhoSetsGOGCDecides(t *testing.T) {
	t.Setenv("GOGC", "77")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	tuneGC(context.Background(), nil) // it would not return
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("the percentage is %d", got)
	}
}
