package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// What the process holds is little beside what the first lists of a large cluster leave behind. The garbage collector is
// strict while they are read, and told afterwards how much garbage may lie around: the same amount in clusters of all sizes,
// not as much again as is in use. Who sets GOGC decides otherwise, and none of this is done.
const (
	// strict is the percentage while the first lists are read.
	strict = 25
	// garbage is how many bytes may lie around afterwards; least and most are the percentages between which that is heeded.
	garbage     = 128 << 20
	least, most = 50, 300
	// aftermath is when what the first cycle has left is given back, too.
	aftermath = 10 * time.Second
)

func gcIsOurs() bool { return os.Getenv("GOGC") == "" }

// readFrugally is called before the first lists are read.
func readFrugally() {
	if gcIsOurs() {
		debug.SetGCPercent(strict)
	}
}

// settleMemory is called when they have been read.
func settleMemory() {
	if !gcIsOurs() {
		return
	}
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	debug.SetGCPercent(percentFor(stats.HeapAlloc))
	time.AfterFunc(aftermath, debug.FreeOSMemory)
}

// percentFor returns the percentage for so many bytes in use.
func percentFor(inUse uint64) int {
	return int(min(max(100*garbage/max(inUse, 1), least), most))
}
