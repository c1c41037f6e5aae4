package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/demo"
)

// demoCommand shows the scheduler at work.
func demoCommand() *cobra.Command {
	var (
		options demo.Options
		nodes   string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show gangs start in a real cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.OutOrStdout()
			switch nodes {
			case "kwok":
				if options.Torch {
					return errors.New("--torch: needs --nodes real")
				}
				return demo.Run(cmd.Context(), options)
			case "real":
				return demo.RunReal(cmd.Context(), options)
			}
			return fmt.Errorf("--nodes %q: must be kwok or real", nodes)
		},
	}
	cmd.Flags().StringVar(&nodes, "nodes", "kwok", "what plays the nodes: kwok, or real, with kubelets and containers, which needs root")
	cmd.Flags().BoolVar(&options.Keep, "keep", os.Getenv("KEEP") != "", "keep the cluster up until Ctrl-C (also KEEP=1)")
	cmd.Flags().BoolVar(&options.Torch, "torch", os.Getenv("TORCH") != "", "run a PyTorchJob, too, on real nodes (also TORCH=1)")
	cmd.Flags().StringVar(&options.Kubernetes, "k8s", os.Getenv("K8S"), "the version of Kubernetes; empty means the pinned one")
	return cmd
}
