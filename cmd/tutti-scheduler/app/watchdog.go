package app

import (
	"context"
	"runtime"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tutti-sched/tutti/internal/lease"
)

// unlessStuck runs the rest of the process until it ends, or the loop does not go on. Then nothing is written any more, the Lease
// is left to expire, and lease.ErrStuck is returned immediately: what hangs is left behind, and the caller ends the process.
func unlessStuck(ctx context.Context, watchdog *lease.Watchdog, election *elector, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, stuck := make(chan error, 1), make(chan error, 1)
	go func() { ended <- run(ctx) }()
	go func() { stuck <- watchdog.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case err := <-stuck:
			if err == nil {
				stuck = nil // ctx has ended: run is about to
				continue
			}
			election.abandon()
			klog.FromContext(ctx).Error(err, "The loop hangs: the process ends and lets its Lease expire", "stack", stackOf(loopFunction))
			klog.Flush()
			return err
		}
	}
}

// loopFunction is in the stack of the loop's goroutine.
const loopFunction = "internal/scheduler.(*Scheduler).Run("

// maxStacks bounds the text of the stacks of all goroutines.
const maxStacks = 8 << 20

// stackOf returns the stack of the goroutine that runs a function; empty when there is none.
func stackOf(function string) string {
	text := make([]byte, maxStacks)
	text = text[:runtime.Stack(text, true)]
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		if strings.Contains(stack, function) {
			return stack
		}
	}
	return ""
}
