package main

import "github.com/spf13/cobra"

// benchCommand measures: in process, and end to end beside other schedulers.
func benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure: cycles in process; speed, latency and memory in a real cluster, beside other schedulers",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(
		benchAllCommand(), benchProcessCommand(), benchSpeedCommand(), benchStartCommand(), benchLatencyCommand(), benchMemoryCommand(),
		benchContainersCommand(), benchProfileCommand(),
	)
	return cmd
}
