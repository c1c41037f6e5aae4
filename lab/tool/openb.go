package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/openb"
)

// openbCommand lets the scheduler work off a real cluster's demand.
func openbCommand() *cobra.Command {
	var options openb.Options
	var report string
	cmd := &cobra.Command{
		Use:   "openb --data DIR",
		Short: "Let the scheduler work off real traces of nodes, pods and gangs, and audit what it leaves",
		Long: `Create the nodes of openb, a production GPU cluster (Alibaba's cluster-trace-gpu-v2023), and gangs with the shapes of
its pods and the sizes of Philly's training jobs (as in stanford-futuredata/gavel), until they ask for more GPUs than
there are. Start the scheduler, wait until it has nothing left to do, and audit the outcome from outside.

The folder holds openb/nodes.csv, openb/pods.csv and philly-gavel/jobs.csv. It fails when the audit finds anything.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if options.Data == "" {
				return errors.New("--data: the folder with the traces is needed")
			}
			options.Out = cmd.ErrOrStderr()
			result, err := openb.Run(cmd.Context(), options)
			if err != nil {
				return err
			}
			command := fmt.Sprintf("cd lab && go run ./cmd/lab openb --data DIR --demand %g --seed %d", options.Demand, options.Seed)
			result.Write(cmd.OutOrStdout(), command)
			if report != "" {
				if err := result.Save(report, command); err != nil {
					return err
				}
			}
			return result.Audit.Err()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Data, "data", "", "the folder with the traces")
	flags.Float64Var(&options.Demand, "demand", 1.2, "how many GPUs are asked for, as a part of those there are")
	flags.Uint64Var(&options.Seed, "seed", 0, "shuffles the traces; 0 keeps the order of arrival")
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.StringArrayVar(&options.Args, "scheduler-arg", nil, "one more argument of the scheduler; may be repeated")
	flags.DurationVar(&options.Quiet, "quiet", 10*time.Second, "how long nothing must have changed at the end")
	flags.DurationVar(&options.Timeout, "timeout", 10*time.Minute, "the longest the scheduler may take")
	flags.StringVar(&options.Dir, "dir", "", "keep the logs in this folder")
	flags.StringVar(&report, "report", "", "write the result into this page too, such as ../docs/reliability.md")
	return cmd
}
