package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/speed"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// benchSpeedCommand measures schedulers against binding alone.
func benchSpeedCommand() *cobra.Command {
	options := speed.Options{}
	var at where
	cmd := &cobra.Command{
		Use:   "speed",
		Short: "Measure how long gangs take to be bound by each scheduler, against binding alone",
		Long: `Measure, on a fresh etcd and kube-apiserver each and with all objects created before:

  alone  bind every pod to a node chosen beforehand, from the first call to the last reply
  floor  list nodes and pods, watch pods, bind each to any node; from the first list until a watch has seen the last pod bound
  tutti  start the scheduler; from the start of its process until a watch has seen the last pod bound
  kube   the same with kube-scheduler, its client's limits lifted
  gangs  the same with kube-scheduler's native gang scheduling

It fails when Tutti leaves a gang partial or overcommits a node, or a gang of its takes too long from its first bind to
its minimum.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.Out = cmd.ErrOrStderr()
			return at.measure(cmd, &options.Contenders, "speed.md", func(ctx context.Context) (report, error) {
				rounds, err := speed.Measure(ctx, options)
				return report{options.Name(), options.Markdown(version(options.Kubernetes), rounds), options.Pictures(rounds)}, err
			})
		},
	}
	speedFlags(cmd, &options)
	at.flags(cmd, nil, "who binds: "+strings.Join(stage.ShortNames(), ", ")+"; all, when not given")
	return cmd
}

func speedFlags(cmd *cobra.Command, options *speed.Options) {
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Pods, "pods", 5000, "how many pods")
	flags.IntVar(&options.GangSize, "gang-size", 50, "how many pods make a gang")
	flags.IntVar(&options.Nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&options.Rounds, "rounds", 1, "how often all of it is measured")
	flags.IntVar(&options.CompareRounds, "compare-rounds", 0, "in how many of the rounds other schedulers are measured; 0 is all")
	flags.IntVar(&options.Workers, "workers", 64, "how many binds are under way at a time without a scheduler")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.StringArrayVar(&options.Args, "scheduler-arg", nil, "one more argument of the scheduler; may be repeated")
	flags.DurationVar(&options.Timeout, "timeout", 10*time.Minute, "the longest one measurement may take")
	flags.DurationVar(&options.SlowestStart, "slowest-start", 5*time.Second,
		"the longest a gang may take from its first bind to its minimum while other programs use little of the processors")
	flags.StringVar(&options.Profile, "profile", "",
		"write where Tutti's scheduler spends its first seconds into this file, for go tool pprof")
	flags.StringVar(&options.Dir, "dir", "", "keep the logs in this folder")
}
