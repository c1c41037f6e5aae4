package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	quiet()
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Build and run throw-away Kubernetes clusters",
		Long:          "Build and run throw-away Kubernetes clusters. \"lab build --help\" says how to build the programs of one.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		auditCommand(),
		benchCommand(),
		demoCommand(),
		imageCommand(),
		openbCommand(),
		releaseCommand(),
		upCommand(),
	)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}
