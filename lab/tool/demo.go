package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/demo"
)

// demoCommand shows the scheduler at work.
func demoCommand() *cobra.Command {
	var options demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show gangs start in a real cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.OutOrStdout()
			return demo.Run(cmd.Context(), options)
		},
	}
	cmd.Flags().BoolVar(&options.Keep, "keep", os.Getenv("KEEP") != "", "keep the cluster up until Ctrl-C (also KEEP=1)")
	cmd.Flags().StringVar(&options.Kubernetes, "k8s", os.Getenv("K8S"), "the version of Kubernetes; empty means the pinned one")
	return cmd
}
