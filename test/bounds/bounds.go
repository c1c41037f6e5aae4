// Package bounds holds fuzz targets to what one input may cost: no input of users may take much time or memory.
package bounds

import (
	"os"
	"runtime"
	"testing"
	"time"
)

// The most that one input may take.
const (
	maxTime      = 20 * time.Second
	maxAllocated = 512 << 20
)

// Hold fails the test when do allocates more memory than one input may or, where the run says that the machine is free
// (HOLD_TIMES=1), as "make fuzz" does, takes more time. It is for one goroutine at a time: what others allocate meanwhile counts.
func Hold(t testing.TB, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; took > maxTime && os.Getenv("HOLD_TIMES") == "1" || allocated > maxAllocated {
		t.Fatalf("one input took %s and %d MiB; at most %s and %d MiB are allowed", took, allocated>>20, maxTime, maxAllocated>>20)
	}
}
