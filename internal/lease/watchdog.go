package lease

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WatchPeriod is the time between two ticks of a Watchdog.
const WatchPeriod = 250 * time.Millisecond

// ErrStuck says that the work of the process does not go on: it writes nothing more, and has to start again.
var ErrStuck = errors.New("the loop does not go on")

// Watchdog notes work that does not go on, so that its process lets the Lease expire in place of renewing it without working. It
// has no goroutine and reads no clock.
//
// It counts its own ticks and not the time: a process that is frozen, and one on a machine that is, ticks no more than it works.
// So a pause costs one tick, however long it was, and on a slow machine both become slow.
//
// Invariant: ErrStuck follows only on limit / WatchPeriod ticks in a row between which the work was busy and did nothing.
type Watchdog struct {
	limit    time.Duration
	progress func() (count uint64, busy bool)
	// seen is the count of the last tick, still how often in a row it was found again.
	seen  uint64
	still int
}

// NewWatchdog returns a watchdog of work that does something at least once in limit, or is not busy. Progress returns a number
// that changes whenever it has done something, and whether it is doing something now; it is called by Tick.
func NewWatchdog(limit time.Duration, progress func() (count uint64, busy bool)) *Watchdog {
	return &Watchdog{limit: limit, progress: progress}
}

// Tick is called every WatchPeriod, on one goroutine. It returns ErrStuck when the work does not go on.
func (w *Watchdog) Tick() error {
	count, busy := w.progress()
	if !busy || count != w.seen {
		w.seen, w.still = count, 0
		return nil
	}
	if w.still++; time.Duration(w.still)*WatchPeriod < w.limit {
		return nil
	}
	return fmt.Errorf("%w: it has been in one step for %s", ErrStuck, w.limit)
}

// Run ticks until ctx ends, or the work does not go on; then it returns ErrStuck.
func (w *Watchdog) Run(ctx context.Context) error {
	ticker := time.NewTicker(WatchPeriod) // which leaves ticks out that nothing was there to take
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := w.Tick(); err != nil {
				return err
			}
		}
	}
}
