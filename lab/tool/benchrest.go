package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/containers"
	"github.com/tutti-sched/tutti/lab/bench/latency"
	"github.com/tutti-sched/tutti/lab/bench/memory"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// schedulerNames are the contenders that are schedulers.
func schedulerNames() []string { return stage.ShortNames()[2:] }

// benchLatencyCommand measures one gang after another.
func benchLatencyCommand() *cobra.Command {
	var options latency.Options
	var at where
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure how long a small gang takes when the scheduler has nothing else to do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.ErrOrStderr()
			return at.measure(cmd, &options.Contenders, "README.md", func(ctx context.Context) (report, error) {
				runs, err := latency.Measure(ctx, options)
				return report{options.Name(), options.Markdown(version(options.Kubernetes), runs), nil}, err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&options.Gangs, "gangs", 100, "how many gangs come, one after another")
	flags.IntVar(&options.GangSize, "gang-size", 8, "how many pods make a gang")
	flags.IntVar(&options.Questions, "questions", 1000, "how many questions a minute Tutti is asked beside it, in a second run; 0 for none")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.DurationVar(&options.Timeout, "timeout", 5*time.Minute, "the longest one scheduler may take")
	at.flags(cmd, schedulerNames(), "which schedulers: "+strings.Join(schedulerNames(), ", "))
	return cmd
}

// benchMemoryCommand measures a scheduler's process at rest.
func benchMemoryCommand() *cobra.Command {
	var options memory.Options
	var at where
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Measure what a scheduler's process holds of the memory in a large cluster at rest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.ErrOrStderr()
			return at.measure(cmd, &options.Contenders, "README.md", func(ctx context.Context) (report, error) {
				runs, err := memory.Measure(ctx, options)
				return report{options.Name(), options.Markdown(version(options.Kubernetes), runs), nil}, err
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Nodes, "nodes", 5000, "how many nodes")
	flags.IntVar(&options.Pods, "pods", 50_000, "how many pods run on them")
	flags.IntVar(&options.GangSize, "gang-size", 50, "how many pods make a gang")
	flags.IntVar(&options.Workers, "workers", 64, "how many requests of the measurement are under way at a time")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.DurationVar(&options.Settle, "settle", memory.AtRest, "how long the memory must not have become less at the end")
	flags.DurationVar(&options.Timeout, "timeout", 15*time.Minute, "the longest one scheduler may take")
	at.flags(cmd, []string{"tutti"}, "which schedulers: "+strings.Join(schedulerNames(), ", "))
	return cmd
}

// benchContainersCommand measures jobs on real nodes.
func benchContainersCommand() *cobra.Command {
	var options containers.Options
	var docs string
	cmd := &cobra.Command{
		Use:   "containers",
		Short: "Measure the time from kubectl apply to the first line of a job's last rank, on real nodes; it needs root",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.ErrOrStderr()
			result, err := containers.Measure(cmd.Context(), options)
			if err != nil {
				return err
			}
			text := options.Markdown(version(options.Kubernetes), result)
			fmt.Fprint(cmd.OutOrStdout(), text)
			if docs == "" {
				return nil
			}
			return page.Write(docs, "README.md", options.Name(), text, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Rounds, "rounds", 10, "how many times each job is applied")
	flags.StringVar(&docs, "docs", "", docsUsage)
	return cmd
}
