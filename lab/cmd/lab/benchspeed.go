package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/speed"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
)

// benchSpeedCommand measures schedulers against binding alone.
func benchSpeedCommand() *cobra.Command {
	options := speed.Options{}
	var contenders []string
	var docs string
	cmd := &cobra.Command{
		Use:   "speed",
		Short: "Measure how long gangs take to be bound by each scheduler, against binding alone",
		Long: `Measure, on a fresh etcd and kube-apiserver each and with all objects created before:

  alone  bind every pod to a node chosen beforehand, from the first call to the last reply
  tutti  start the scheduler; from the start of its process until a watch has seen the last pod bound
  kube   the same with kube-scheduler, its client's limits lifted
  gangs  the same with kube-scheduler's native gang scheduling

It fails when Tutti leaves a gang partial or overcommits a node, or a gang of its takes too long from its first bind to
its minimum.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			quiet()
			var err error
			if options.Contenders, err = stage.ParseContenders(contenders); err != nil {
				return fmt.Errorf("--contenders: %w", err)
			}
			options.Out = cmd.ErrOrStderr()
			rounds, err := speed.Measure(cmd.Context(), options)
			text := options.Markdown(cmp.Or(options.Kubernetes, binaries.DefaultKubernetes), rounds)
			fmt.Fprint(cmd.OutOrStdout(), text)
			if err != nil || docs == "" {
				return err
			}
			return page.Write(docs, "speed.md", options.Name(), text, options.Pictures(rounds))
		},
	}
	speedFlags(cmd, &options)
	flags := cmd.Flags()
	flags.StringSliceVar(&contenders, "contenders", nil, "who binds: "+strings.Join(stage.ShortNames(), ", ")+"; all, when not given")
	flags.StringVar(&docs, "docs", "", docsUsage)
	return cmd
}

// docsUsage says what --docs is, for all commands that measure.
const docsUsage = "write the result into the pages of this folder too, such as ../docs/benchmarks"

func speedFlags(cmd *cobra.Command, options *speed.Options) {
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.IntVar(&options.Pods, "pods", 5000, "how many pods")
	flags.IntVar(&options.GangSize, "gang-size", 50, "how many pods make a gang")
	flags.IntVar(&options.Nodes, "nodes", 1000, "how many nodes")
	flags.IntVar(&options.Rounds, "rounds", 1, "how often all of it is measured")
	flags.IntVar(&options.Workers, "workers", 64, "how many binds are under way at a time without a scheduler")
	flags.StringVar(&options.Program, "scheduler", "", "the scheduler's program; empty builds that of this repository")
	flags.StringArrayVar(&options.Args, "scheduler-arg", nil, "one more argument of the scheduler; may be repeated")
	flags.DurationVar(&options.Timeout, "timeout", 10*time.Minute, "the longest one measurement may take")
	flags.DurationVar(&options.SlowestStart, "slowest-start", 5*time.Second,
		"the longest a gang may take from its first bind to its minimum")
	flags.StringVar(&options.Profile, "profile", "",
		"write where Tutti's scheduler spends its first seconds into this file, for go tool pprof")
	flags.StringVar(&options.Dir, "dir", "", "keep the logs in this folder")
}
