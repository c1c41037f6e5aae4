// Package bounds holds fuzz targets to what one input may cost: no input of users may take much time or memory.
package bounds

import (
	"runtime"
	"testing"
	"time"
)

// The most that one input may take. A slow machine that does other things must not fail.
const (
	maxTime      = 20 * time.Second
	maxAllocated = 512 << 20
)

// Hold fails the test when do takes more time, or allocates more memory, than one input may. It is for one goroutine at a
// time: what others allocate meanwhile counts.
func Hold(t testing.TB, do func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	do()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; took > maxTime || allocated > maxAllocated {
		t.Fatalf("one input took %s and %d MiB; at most %s and %d MiB are allowed", took, allocated>>20, maxTime, maxAllocated>>20)
	}
}
