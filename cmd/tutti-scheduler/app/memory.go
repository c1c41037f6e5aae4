package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// What the process holds is little beside what the first lists of a large cluster leave behind. So the limit of
// the garbage collector is a number of bytes of garbage: the same in clusters of all sizes, and not as much again as is in use.
// Where GOGC is set, that decides, and none of this is done.
const (
	// garbageBytes is how many bytes of garbage there may be; minPercent and maxPercent bound the percentage that follows from it.
	garbageBytes           = 96 << 20
	minPercent, maxPercent = 40, 400
	// startupInterval is how often the percentage follows what is in use while the process starts, startupPeriod for how long after
	// the first lists, and steadyInterval how often from then on: a cluster may grow tenfold.
	startupInterval = 50 * time.Millisecond
	startupPeriod   = 10 * time.Second
	steadyInterval  = time.Second
	never           = time.Duration(1<<63 - 1)
)

// tuneGC lets the garbage collector's percentage follow what is in use until the context ends, and releases what the first lists
// have left.
func tuneGC(ctx context.Context, read <-chan struct{}) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticker := time.NewTicker(startupInterval)
	defer ticker.Stop()
	end := time.NewTimer(never)
	defer end.Stop()
	for set := 0; ; {
		if percent := gcPercent(inUse()); percent != set { // setting it stops the world
			debug.SetGCPercent(percent)
			set = percent
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-read:
			read = nil
			end.Reset(startupPeriod)
		case <-end.C:
			debug.FreeOSMemory()
			ticker.Reset(steadyInterval)
		}
	}
}

// inUse returns how many bytes were in use after the last collection.
func inUse() uint64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return live[0].Value.Uint64()
}

// gcPercent returns the percentage for so many bytes in use.
func gcPercent(inUse uint64) int {
	return int(min(max(100*garbageBytes/max(inUse, 1), minPercent), maxPercent))
}
