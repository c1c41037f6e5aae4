package inprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tutti-sched/tutti/lab/bench/profile"
)

// Options say how to measure.
type Options struct {
	// Profile is the file that receives where the measured cycles spent their time; empty means none.
	Profile string
	// Out receives progress.
	Out io.Writer
}

// Result is a row with what was measured.
type Result struct {
	Case Case
	// Took is the median of what is timed; of a cycle, Snapshot is the part that brings the snapshot up to date.
	Took, Snapshot time.Duration
	// Fastest and Slowest are the extremes.
	Fastest, Slowest time.Duration
	// Binds and Waiting are how many pods one cycle bound and how many jobs it left waiting.
	Binds, Waiting int
	// Allocated is the memory that one cycle took from the heap, whether it was released or not, in bytes.
	Allocated uint64
	// Processor is the median of the processor time of the whole process, Live that of what the heap holds after a cycle, in bytes.
	// Both are measured where Without is, which is the workload that it is compared with.
	Processor time.Duration
	Live      uint64
	Without   *Result
}

// Rate is how many pods were bound per second of the cycle.
func (r Result) Rate() float64 { return float64(r.Binds) / r.Took.Seconds() }

// Met reports whether the goal is met, if there is one.
func (r Result) Met() bool { return r.Case.Goal == 0 || r.Took <= r.Case.Goal }

// Run measures the cases in order; those of the same workload share one cluster. What was measured before an error is
// returned with it.
func Run(ctx context.Context, cases []Case, options Options) ([]Result, error) {
	b := bench{options: options, known: map[Case]Result{}}
	defer b.close()
	if options.Profile != "" {
		dir, err := os.MkdirTemp("", "tutti-profile-")
		if err != nil {
			return nil, fmt.Errorf("profile: %w", err)
		}
		defer os.RemoveAll(dir)
		b.profiles = dir
	}
	var results []Result
	for i, c := range cases {
		if err := ctx.Err(); err != nil {
			return results, fmt.Errorf("measure: %w", err)
		}
		start := time.Now()
		result, err := b.measure(ctx, c)
		if err != nil {
			return results, fmt.Errorf("%s: %w", c, err)
		}
		results = append(results, result)
		fmt.Fprintf(options.Out, "[%d/%d] %s: %s (snapshot %s), %d bound, %d waiting, %d MB allocated; measured in %s\n",
			i+1, len(cases), c, Round(result.Took), Round(result.Snapshot), result.Binds, result.Waiting, result.Allocated>>20,
			time.Since(start).Round(100*time.Millisecond))
	}
	if options.Profile != "" {
		return results, profile.Merge(ctx, b.profiles, options.Profile)
	}
	return results, nil
}

// bench is one go at measuring.
type bench struct {
	options Options
	known   map[Case]Result
	world   *world
	// profiles is the folder of the profiles so far.
	profiles string
	count    int
}

func (b *bench) close() {
	if b.world != nil {
		b.world.stop()
		b.world = nil
	}
}

// measure measures one case, or takes what was measured for another table.
func (b *bench) measure(ctx context.Context, c Case) (Result, error) {
	if c.Table.compares() {
		return b.compare(c)
	}
	key := c
	key.Table, key.Goal = "", 0
	result, ok := b.known[key]
	if !ok {
		if err := b.open(c.Workload); err != nil {
			return result, err
		}
		measure := b.rounds
		if c.Measure == Loop {
			measure = b.loop
		}
		var err error
		if result, err = measure(ctx, c); err != nil {
			return result, err
		}
		b.known[key] = result
	}
	result.Case = c
	return result, nil
}

// open makes the cluster, unless it is that of the case before.
func (b *bench) open(workload Workload) error {
	if b.world != nil && b.world.workload == workload {
		return nil
	}
	b.close()
	debug.FreeOSMemory()
	var err error
	b.world, err = newWorld(workload)
	return err
}

// rounds measures as often as asked for and returns the median.
func (b *bench) rounds(_ context.Context, c Case) (Result, error) {
	var rounds []round
	if b.remember(c) {
		defer b.world.leave()
	}
	runtime.GC()
	for range c.Rounds {
		round, err := b.round(c)
		if err != nil {
			return Result{}, err
		}
		rounds = append(rounds, round)
	}
	return median(rounds), nil
}

// remember runs the cycles before the one that is measured, and reports whether what waits is there then.
func (b *bench) remember(c Case) bool {
	switch c.Measure {
	case Again, OneGang, OneNode:
		b.world.arrive()
		b.world.run()
		b.world.run() // what the first one decided changes the snapshot once more
		return true
	case Kept:
		b.world.arrive()
		b.world.run()
		b.world.leave()
	case First, Loop, Unchanged, Changed:
	}
	return false
}

// compare measures a case, and the same without what it is about, in turns. Each time the cluster is made again and is the only
// one: the heap holds nothing else.
func (b *bench) compare(c Case) (Result, error) {
	without := c
	without.Workload = c.Table.base(c.Workload)
	var with, rest []round
	for range c.Rounds {
		for _, one := range []struct {
			of     Case
			rounds *[]round
		}{{without, &rest}, {c, &with}} {
			b.close()
			if err := b.open(one.of.Workload); err != nil {
				return Result{}, err
			}
			b.remember(one.of)
			runtime.GC()
			round, err := b.round(one.of)
			if err != nil {
				return Result{}, err
			}
			*one.rounds = append(*one.rounds, round)
		}
	}
	result, beside := median(with), median(rest)
	result.Case, beside.Case, result.Without = c, without, &beside
	return result, nil
}

// round is what was measured once.
type round struct {
	cycle
	allocated uint64
	// processor is the time of the whole process, live what the heap holds afterwards.
	processor time.Duration
	live      uint64
}

// median sums up rounds of the same.
func median(rounds []round) Result {
	middle := func(compare func(a, b round) int) round {
		slices.SortFunc(rounds, compare)
		return rounds[len(rounds)/2]
	}
	last := rounds[len(rounds)-1]
	result := Result{Binds: last.binds, Waiting: last.waiting, Allocated: last.allocated}
	result.Processor = middle(func(a, b round) int { return cmp.Compare(a.processor, b.processor) }).processor
	result.Live = middle(func(a, b round) int { return cmp.Compare(a.live, b.live) }).live
	by := middle(func(a, b round) int { return cmp.Compare(a.took(), b.took()) })
	result.Took, result.Snapshot = by.took(), by.snapshot
	result.Fastest, result.Slowest = rounds[0].took(), rounds[len(rounds)-1].took()
	return result
}

// round measures once, and leaves the cluster as it was.
func (b *bench) round(c Case) (took round, err error) {
	w := b.world
	switch c.Measure {
	case First:
		w.arrive()
		defer w.leave()
		runtime.GC()
	case Kept:
		w.come()
		defer w.leave()
		runtime.GC()
	case Changed:
		w.churn(100)
		runtime.GC()
	case OneGang:
		w.touch()
	case OneNode:
		w.visit()
	case Again, Unchanged, Loop:
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, err := b.profile()
	if err != nil {
		return took, err
	}
	start, err := processorTime()
	if err != nil {
		return took, err
	}
	if c.Measure == Unchanged || c.Measure == Changed {
		took.cycle = w.look()
	} else {
		took.cycle = w.run()
	}
	end, err := processorTime()
	if err := errors.Join(err, stop()); err != nil {
		return took, err
	}
	runtime.ReadMemStats(&after)
	took.processor, took.allocated = end-start, after.TotalAlloc-before.TotalAlloc
	if (c.Measure == First || c.Measure == Kept) && took.binds != c.Workload.Starts() {
		return took, fmt.Errorf("%d of %d pods were bound", took.binds, c.Workload.Starts())
	}
	if c.Table.compares() {
		runtime.GC()
		runtime.ReadMemStats(&after)
		took.live = after.HeapAlloc
	}
	return took, nil
}

// loop measures the real loop. It takes the cluster with it.
func (b *bench) loop(ctx context.Context, c Case) (Result, error) {
	b.world.renewPending()
	r, err := b.world.loop(ctx)
	b.close()
	switch {
	case err != nil:
		return Result{}, err
	case r.binds != c.Workload.Starts():
		return Result{}, fmt.Errorf("%d of %d pods were bound", r.binds, c.Workload.Starts())
	case r.cycles > 0:
		return Result{}, fmt.Errorf("%d cycles ran at rest", r.cycles)
	case r.writes > 0:
		return Result{}, fmt.Errorf("%d writes were sent at rest", r.writes)
	}
	return Result{Took: r.wake, Fastest: r.wake, Slowest: r.wake, Binds: r.binds}, nil
}

// profile starts to record, if asked for, and returns what ends that.
func (b *bench) profile() (stop func() error, err error) {
	if b.profiles == "" {
		return func() error { return nil }, nil
	}
	b.count++
	return profile.Start(filepath.Join(b.profiles, fmt.Sprintf("%05d.pprof", b.count)))
}

// Round shortens a duration to what can be read.
func Round(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
