package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/speed"
)

// benchStartCommand measures what the scheduler's start is made of.
func benchStartCommand() *cobra.Command {
	options := speed.Options{}
	var at where
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Measure what the time from the start of the scheduler's process to its first bind is made of",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.ErrOrStderr()
			options.Args = append(options.Args, startArgs()...)
			return at.measure(cmd, &options.Contenders, "README.md", func(ctx context.Context) (report, error) {
				rounds, err := speed.Measure(ctx, options)
				return report{options.Name(), options.StartMarkdown(version(options.Kubernetes), rounds), nil}, err
			})
		},
	}
	speedFlags(cmd, &options)
	at.flags(cmd, []string{"floor", "tutti"}, "who binds")
	return cmd
}

// startArgs make the scheduler log its first cycle.
func startArgs() []string { return []string{"--v=2"} }
