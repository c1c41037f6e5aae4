package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/inprocess"
	"github.com/tutti-sched/tutti/pkg/model"
)

// benchProcessCommand measures cycles in process.
func benchProcessCommand() *cobra.Command {
	var (
		only     []string
		full     bool
		workload inprocess.Workload
		rounds   int
		docs     string
		options  inprocess.Options
	)
	cmd := &cobra.Command{
		Use:   "process",
		Short: "Measure what a scheduling cycle costs, in process and without a cluster",
		Long: `Measure cycles as the scheduler's loop runs them - snapshot, session, assume - over a live state that was filled by
events, with kube-scheduler's own plugins and the built-in configuration.

With a size given, one row of each kind that --only names is measured; else the default selection, or --full all.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			kinds, err := parseKinds(only)
			if err != nil {
				return err
			}
			cases := inprocess.Only(inprocess.Selection(), kinds)
			if full {
				cases = inprocess.Only(inprocess.Full(), kinds)
			}
			if sized(cmd) {
				cases = inprocess.One(kinds, workload, rounds)
			} else if cmd.Flags().Changed("rounds") {
				for i := range cases {
					cases[i].Rounds = rounds
				}
			}
			options.Out = cmd.ErrOrStderr()
			if docs != "" {
				if sized(cmd) || len(kinds) > 0 || options.Profile != "" {
					return errors.New("--docs: the page shows the whole selection, or all of --full")
				}
				return writeCycles(cmd.Context(), docs, cases, full, options)
			}
			results, err := inprocess.Run(cmd.Context(), cases, options)
			fmt.Fprint(cmd.OutOrStdout(), inprocess.Markdown(results))
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&only, "only", nil, "measure these kinds only: "+kindNames())
	flags.BoolVar(&full, "full", false, "measure every size of every kind")
	flags.IntVar(&workload.Nodes, "nodes", 10_000, "how many nodes")
	flags.IntVar(&workload.Existing, "existing", 0, "how many pods there are on nodes")
	flags.IntVar(&workload.Pending, "pending", 10_000, "how many pods wait")
	flags.IntVar(&workload.GangSize, "gang-size", 0, "how many pods make a gang that waits; 0 means that all are one")
	flags.IntVar(&workload.Queues, "queues", 0, "how many queues share the cluster")
	flags.Func("groups", "whose groups those are that wait, beside PodGroups of Tutti's: "+sourceNames(), func(kind string) (err error) { workload.Source, err = parseSource(kind); return err })
	flags.BoolVar(&workload.Claims, "claims", false, "let pods ask for devices by resource claims, and compare with devices that nodes report")
	flags.Func("topology", "levels of the cluster, and what gangs that wait say about them: "+topologyNames(), func(name string) (err error) { workload.Topology, err = parseTopology(name); return err })
	flags.IntVar(&rounds, "rounds", 3, "how often each is measured; the median counts")
	flags.StringVar(&docs, "docs", "", docsUsage)
	flags.StringVar(&options.Profile, "profile", "", "write where the measured cycles spent their time into this file, for go tool pprof")
	return cmd
}

// sized reports whether a size was given.
func sized(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"nodes", "existing", "pending", "gang-size", "queues", "groups", "claims", "topology"}, cmd.Flags().Changed)
}

func parseKinds(names []string) ([]inprocess.Kind, error) {
	var kinds []inprocess.Kind
	for _, name := range names {
		kind := inprocess.Kind(name)
		if !slices.Contains(inprocess.Kinds(), kind) {
			return nil, fmt.Errorf("--only %q: there are %s", name, kindNames())
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

// parseSource returns the source whose groups have that kind; empty means our own.
func parseSource(kind string) (model.Source, error) {
	for _, source := range append(inprocess.Sources(), model.SourcePodGroup) {
		if kind == source.Kind() || kind == "" && source == model.SourcePodGroup {
			return source, nil
		}
	}
	return 0, fmt.Errorf("--groups %q: there are %s", kind, sourceNames())
}

func sourceNames() string {
	var names []string
	for _, source := range inprocess.Sources() {
		names = append(names, source.Kind())
	}
	return strings.Join(names, ", ")
}

func parseTopology(name string) (inprocess.Topology, error) {
	if topology := inprocess.Topology(name); slices.Contains(inprocess.Topologies(), topology) {
		return topology, nil
	}
	return "", fmt.Errorf("--topology %q: there are %s", name, topologyNames())
}

func topologyNames() string {
	var names []string
	for _, topology := range inprocess.Topologies() {
		names = append(names, string(topology))
	}
	return strings.Join(names, ", ")
}

func kindNames() string {
	var names []string
	for _, kind := range inprocess.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}
