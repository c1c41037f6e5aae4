package command

import (
	"context"
	"runtime/debug"
	"testing"
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

func TestWhoSetsGOGCDecides(t *testing.T) {
	t.Setenv("GOGC", "77")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	tuneGC(context.Background(), nil) // it would not return
	if got := debug.SetGCPercent(77); got != 77 {
		t.Errorf("the percentage is %d", got)
	}
}
