// Command kubectl-tutti is what users and operators of Tutti ask: why a job waits, how all jobs stand, what the scheduler sees and
// does. Under this name on the PATH it is kubectl's: kubectl tutti.
//
// This package holds the commands, their flags, and what they print. What they say about jobs is worked out in package answer, and
// the way to the scheduler is found in package reach.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		stop()
		os.Exit(1)
	}
}
