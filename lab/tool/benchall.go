package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/bench/containers"
	"github.com/tutti-sched/tutti/lab/bench/inprocess"
	"github.com/tutti-sched/tutti/lab/bench/latency"
	"github.com/tutti-sched/tutti/lab/bench/memory"
	"github.com/tutti-sched/tutti/lab/bench/page"
	"github.com/tutti-sched/tutti/lab/bench/profile"
	"github.com/tutti-sched/tutti/lab/bench/speed"
	"github.com/tutti-sched/tutti/lab/bench/stage"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/node"
)

// benchAllCommand measures everything that the pages show.
func benchAllCommand() *cobra.Command {
	var docs string
	var full bool
	cmd := &cobra.Command{
		Use:   "all",
		Short: "Measure everything that the pages of docs/benchmarks show: half an hour, with --full hours",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(docs, 0o755); err != nil {
				return fmt.Errorf("--docs: %w", err)
			}
			return everything(cmd.Context(), docs, full, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&docs, "docs", "../docs/benchmarks", "the folder of the pages that are written")
	cmd.Flags().BoolVar(&full, "full", false, "every size of every kind in process, and more rounds")
	return cmd
}

// step is one measurement and the page it writes.
type step struct {
	name string
	run  func(ctx context.Context, docs string, out io.Writer) error
}

func everything(ctx context.Context, docs string, full bool, out io.Writer) error {
	steps := selection(full)
	for i, s := range steps {
		start := time.Now()
		fmt.Fprintf(out, "== %d of %d: %s\n", i+1, len(steps), s.name)
		if err := s.run(ctx, docs, out); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "== %s: done after %s\n", s.name, time.Since(start).Round(time.Second))
	}
	return nil
}

func selection(full bool) []step {
	compared, cases := 1, inprocess.Selection()
	if full {
		compared, cases = 0, inprocess.Full()
	}
	return []step{
		{"cycles in process", func(ctx context.Context, docs string, out io.Writer) error {
			return writeCycles(ctx, docs, cases, full, inprocess.Options{Out: out})
		}},
		{"speed on 1,000 nodes", speedStep(1000, 5000, compared)},
		{"speed on 5,000 nodes", speedStep(5000, 10_000, compared)},
		{"start on 1,000 nodes", startStep(1000, 5000)},
		{"start on 5,000 nodes", startStep(5000, 10_000)},
		{"latency", func(ctx context.Context, docs string, out io.Writer) error {
			options := latency.Options{
				Contenders: stage.Contenders()[2:], Nodes: 1000, Gangs: 100, GangSize: 8, Questions: 1000, Timeout: 5 * time.Minute, Out: out,
			}
			runs, err := latency.Measure(ctx, options)
			if err != nil {
				return err
			}
			return page.Write(docs, "README.md", options.Name(), options.Markdown(binaries.DefaultKubernetes, runs), nil)
		}},
		{"memory", func(ctx context.Context, docs string, out io.Writer) error {
			options := memory.Options{
				Contenders: []stage.SchedulerUnderTest{stage.Tutti}, Nodes: 5000, Pods: 50_000, GangSize: 50, Workers: 64,
				Settle: memory.AtRest, Timeout: 15 * time.Minute, Out: out,
			}
			runs, err := memory.Measure(ctx, options)
			if err != nil {
				return err
			}
			return page.Write(docs, "README.md", options.Name(), options.Markdown(binaries.DefaultKubernetes, runs), nil)
		}},
		{"containers", func(ctx context.Context, docs string, out io.Writer) error {
			if missing := node.Missing(); len(missing) > 0 {
				fmt.Fprintf(out, "not measured: real nodes need %s\n", strings.Join(missing, ", "))
				return nil
			}
			options := containers.Options{Rounds: 10, Out: out}
			result, err := containers.Measure(ctx, options)
			if err != nil {
				return err
			}
			return page.Write(docs, "README.md", options.Name(), options.Markdown(binaries.DefaultKubernetes, result), nil)
		}},
		{"profiles", writeProfiles},
	}
}

// speedStep measures others in so many of the rounds, 0 is all.
func speedStep(nodes, pods, compared int) func(context.Context, string, io.Writer) error {
	return func(ctx context.Context, docs string, out io.Writer) error {
		options := speedOptions(nodes, pods, 3, out)
		options.Contenders, options.CompareRounds = stage.Contenders(), compared
		measured, err := speed.Measure(ctx, options)
		if err != nil {
			return err
		}
		text := options.Markdown(binaries.DefaultKubernetes, measured)
		return page.Write(docs, "speed.md", options.Name(), text, options.Pictures(measured))
	}
}

// startStep measures what the start is made of.
func startStep(nodes, pods int) func(context.Context, string, io.Writer) error {
	return func(ctx context.Context, docs string, out io.Writer) error {
		options := speedOptions(nodes, pods, 3, out)
		options.Contenders, options.Args = []stage.SchedulerUnderTest{stage.Floor, stage.Tutti}, startArgs()
		measured, err := speed.Measure(ctx, options)
		if err != nil {
			return err
		}
		return page.Write(docs, "README.md", options.Name(), options.StartMarkdown(binaries.DefaultKubernetes, measured), nil)
	}
}

func speedOptions(nodes, pods, rounds int, out io.Writer) speed.Options {
	return speed.Options{
		Nodes: nodes, Pods: pods, GangSize: 50, Rounds: rounds, Workers: 64, Timeout: 10 * time.Minute,
		SlowestStart: 5 * time.Second, Out: out,
	}
}

// writeCycles measures in process and writes the page about it.
func writeCycles(ctx context.Context, docs string, cases []inprocess.Case, full bool, options inprocess.Options) error {
	before, err := stage.Used()
	if err != nil {
		return err
	}
	results, err := inprocess.Run(ctx, cases, options)
	if err != nil {
		return err
	}
	after, err := stage.Used()
	if err != nil {
		return err
	}
	command := "cd lab && go run ./cmd/lab bench process"
	if full {
		command += " --full"
	}
	text := fmt.Sprintf("%s; other programs used %.0f %% of the processors meanwhile.\n\n    %s\n\n%s",
		page.Processor(), 100*stage.Others(before, after), command, inprocess.Markdown(results))
	return page.Write(docs, "process.md", "cycles", text, inprocess.Pictures(results))
}

// writeProfiles records where the time goes in three runs, and writes the page about it.
func writeProfiles(ctx context.Context, docs string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "tutti-profile-")
	if err != nil {
		return fmt.Errorf("profiles: %w", err)
	}
	defer os.RemoveAll(dir)
	cycles := func(kind inprocess.Kind, pending, gangSize, rounds int) func(file string) error {
		return func(file string) error {
			workload := inprocess.Workload{Nodes: 10_000, Pending: pending, GangSize: gangSize}
			cases := inprocess.One([]inprocess.Kind{kind}, workload, rounds)
			_, err := inprocess.Run(ctx, cases, inprocess.Options{Profile: file, Out: out})
			return err
		}
	}
	for _, p := range []struct {
		name   string
		record func(file string) error
	}{
		{"10,000 identical pods in one gang, 10,000 nodes", cycles(inprocess.Identical, 10_000, 10_000, 10)},
		{"100,000 pods of 150 shapes in gangs of 50, 10,000 nodes", cycles(inprocess.Shapes, 100_000, 50, 1)},
		{"End to end: 5,000 pods in gangs of 50, 1,000 nodes, the process from its start", func(file string) error {
			options := speedOptions(1000, 5000, 1, out)
			options.Contenders, options.Profile = []stage.SchedulerUnderTest{stage.Tutti}, file
			_, err := speed.Measure(ctx, options)
			return err
		}},
	} {
		file := filepath.Join(dir, "profile")
		if err := p.record(file); err != nil {
			return err
		}
		text, err := profile.Markdown(ctx, p.name, file)
		if err != nil {
			return err
		}
		if err := page.Write(docs, "process.md", p.name, text, nil); err != nil {
			return err
		}
	}
	return nil
}

// benchProfileCommand writes the page of profiles alone.
func benchProfileCommand() *cobra.Command {
	var docs string
	cmd := &cobra.Command{
		Use:   "profile",
		Short: "Record where the time goes, in process and end to end, and write a part of docs/benchmarks/process.md",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeProfiles(cmd.Context(), docs, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&docs, "docs", "../docs/benchmarks", "the folder of the page that is written")
	return cmd
}
