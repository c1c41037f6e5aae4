package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/bench/latency"
	"github.com/tutti-sched/tutti/lab/bench/memory"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// quiet gives controller-runtime a log, or it complains, with a stack.
func quiet() { log.SetLogger(klog.Background()) }

// schedulerNames are the contenders that are schedulers.
func schedulerNames() []string { return stage.ShortNames()[1:] }

// benchLatencyCommand measures one gang after another.
func benchLatencyCommand() *cobra.Command {
	var options latency.Options
	var contenders []string
	var docs string
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Measure how long a small gang takes when the scheduler has nothing else to do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			quiet()
			var err error
			if options.Contenders, err = stage.ParseContenders(contenders); err != nil {
				return fmt.Errorf("--contenders: %w", err)
			}
			options.Out = cmd.ErrOrStderr()
			runs, err := latency.Measure(cmd.Context(), options)
			text := options.Markdown(cmp.Or(options.Kubernetes, binaries.DefaultKubernetes), runs)
			fmt.Fprint(cmd.OutOrStdout(), text)
			if err != nil || docs == "" {
				return err
			}
			return page.Write(docs, "latency.md", options.Name(), text, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.StringSliceVar(&contenders, "contenders", schedulerNames(), "which schedulers: "+strings.Join(schedulerNames(), ", "))
	flags.IntVar(&options.Nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&options.Gangs, "gangs", 100, "how many gangs come, one after another")
	flags.IntVar(&options.GangSize, "gang-size", 8, "how many pods make a gang")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.DurationVar(&options.Timeout, "timeout", 5*time.Minute, "the longest one scheduler may take")
	flags.StringVar(&docs, "docs", "", docsUsage)
	return cmd
}

// benchMemoryCommand measures a scheduler's process at rest.
func benchMemoryCommand() *cobra.Command {
	var options memory.Options
	var contenders []string
	var docs string
	cmd := &cobra.Command{
		Use:   "memory",
		Short: "Measure what a scheduler's process holds of the memory in a large cluster at rest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			quiet()
			var err error
			if options.Contenders, err = stage.ParseContenders(contenders); err != nil {
				return fmt.Errorf("--contenders: %w", err)
			}
			options.Out = cmd.ErrOrStderr()
			runs, err := memory.Measure(cmd.Context(), options)
			text := options.Markdown(cmp.Or(options.Kubernetes, binaries.DefaultKubernetes), runs)
			fmt.Fprint(cmd.OutOrStdout(), text)
			if err != nil || docs == "" {
				return err
			}
			return page.Write(docs, "memory.md", options.Name(), text, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.StringSliceVar(&contenders, "contenders", []string{"tutti"}, "which schedulers: "+strings.Join(schedulerNames(), ", "))
	flags.IntVar(&options.Nodes, "nodes", 5000, "how many nodes")
	flags.IntVar(&options.Pods, "pods", 50_000, "how many pods run on them")
	flags.IntVar(&options.GangSize, "gang-size", 50, "how many pods make a gang")
	flags.IntVar(&options.Workers, "workers", 64, "how many requests of the measurement are under way at a time")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.DurationVar(&options.Settle, "settle", memory.AtRest, "how long the memory must not have become less at the end")
	flags.DurationVar(&options.Timeout, "timeout", 15*time.Minute, "the longest one scheduler may take")
	flags.StringVar(&docs, "docs", "", docsUsage)
	return cmd
}
