package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/speed"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// benchCommand measures the scheduler against binding alone.
func benchCommand() *cobra.Command {
	options := speed.Options{}
	var report string
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how long gangs take to be bound, against binding alone",
		Long: `Measure, on a fresh etcd and kube-apiserver each and with all objects created before:

  alone      bind every pod to a node chosen beforehand, from the first call to the last reply
  scheduler  start the scheduler; from the start of its process until a watch has seen the last pod bound

It fails when a gang is left partial, a node is overcommitted, or a gang takes too long from its first bind to its
minimum.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log.SetLogger(klog.Background()) // or controller-runtime complains, with a stack
			options.Out = cmd.ErrOrStderr()
			rounds, err := speed.Run(cmd.Context(), options)
			text := options.Markdown(cmp.Or(options.Kubernetes, binaries.DefaultKubernetes), rounds)
			fmt.Fprint(cmd.OutOrStdout(), text)
			if err != nil || report == "" {
				return err
			}
			return page.WritePart(report, options.Name(), text)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Pods, "pods", 5000, "how many pods")
	flags.IntVar(&options.GangSize, "gang-size", 50, "how many pods make a gang")
	flags.IntVar(&options.Nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&options.Rounds, "rounds", 1, "how often both measurements are taken")
	flags.IntVar(&options.Workers, "workers", 64, "how many binds are under way at a time without a scheduler")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.StringArrayVar(&options.Args, "scheduler-arg", nil, "one more argument of the scheduler; may be repeated")
	flags.DurationVar(&options.Timeout, "timeout", 5*time.Minute, "the longest one measurement may take")
	flags.DurationVar(&options.SlowestStart, "slowest-start", 5*time.Second,
		"the longest a gang may take from its first bind to its minimum")
	flags.StringVar(&options.Dir, "dir", "", "keep the logs in this folder")
	flags.StringVar(&report, "report", "", "write the result into this page too, such as ../docs/benchmarks.md")
	cmd.AddCommand(benchProcessCommand())
	return cmd
}
