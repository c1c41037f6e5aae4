// Command kubectl-tutti answers users and operators of Tutti: why a job waits, the state of all jobs, what the scheduler sees
// and does. Under this name on the PATH it is a kubectl plugin: kubectl tutti.
//
// This package has the commands, their flags, and their output. Package diagnose explains jobs, and package connect connects
// to the scheduler.
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
