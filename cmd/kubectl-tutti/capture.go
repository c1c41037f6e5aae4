package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/connect"
	"github.com/tutti-sched/tutti/internal/capture"
	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/rehearse"
	"github.com/tutti-sched/tutti/internal/scheduler"
	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/pkg/model"
)

func newCapture(a *clientFlags) *cobra.Command {
	endpoint := &endpointFlags{clientFlags: a}
	var file, from string
	var redact bool
	command := &cobra.Command{
		Use:   "capture -f FILE",
		Short: "Write what the scheduler knows of the cluster to a file, for kubectl tutti replay",
		Long: `Writes all that the next cycle of the scheduler depends on to a file: nodes, pods, groups and queues as the scheduler keeps them, what it
has decided and no watch has shown yet, delays after failures, and its configuration. The file has names, labels and images of all
namespaces; environment variables, commands and the content of volumes are not in it.

With --redact the letters in names, namespaces, values of labels, images and messages are replaced, here, before the file is written: what the
cycle decides stays the same. Digits, the lengths of names, keys of labels, names of resources, times, numbers, expressions of device
classes and the configuration, without its URLs, stay. Look at the file before you pass it on: zcat FILE | less.

It needs the Role tutti-scheduler-inspect of the chart, in the scheduler's namespace.`,
		Example: `  kubectl tutti capture -f night.tutti
  kubectl tutti replay night.tutti
  kubectl tutti capture --from night.tutti --redact -f for-a-report.tutti`,
		Args: cobra.NoArgs,
	}
	endpoint.addFlags(command.Flags())
	command.Flags().StringVarP(&file, "filename", "f", "", "file that is written; it must not exist")
	_ = command.MarkFlagRequired("filename") // the flag is there
	command.Flags().BoolVar(&redact, "redact", false, "replace the letters in names, values of labels and messages")
	command.Flags().StringVar(&from, "from", "", "file of kubectl tutti capture that is written again, in place of the scheduler's cluster")
	command.RunE = func(command *cobra.Command, _ []string) error {
		take := func() (*capture.File, error) { return takeCapture(command.Context(), endpoint) }
		if from != "" {
			take = func() (*capture.File, error) { return readCapture(from) }
		}
		read, err := take()
		if err == nil && redact {
			read, err = redacted(command.Context(), read)
		}
		if err != nil {
			return err
		}
		to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it shows all namespaces
		if err != nil {
			return fmt.Errorf("-f: %w", err)
		}
		if err := read.Write(to); err != nil {
			return fmt.Errorf("-f: %w", err)
		}
		if err := to.Close(); err != nil {
			return fmt.Errorf("-f: %w", err)
		}
		out := a.command(command)
		out.Printf("%s has the cluster as of %s, after cycle %d.\n", file, read.At.Format(time.DateTime), read.Cycle)
		for _, note := range read.Inexact {
			out.Printf("Inexact: %s.\n", note)
		}
		return nil
	}
	return command
}

// takeCapture asks the scheduler for a capture.
func takeCapture(ctx context.Context, endpoint *endpointFlags) (*capture.File, error) {
	var data []byte
	err := endpoint.connected(ctx, func(client *connect.Client) (err error) {
		data, err = client.GetRaw(ctx, debugapi.PathCapture)
		return err
	})
	if err != nil {
		return nil, err
	}
	file, err := capture.Read(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("answer of the scheduler: %w", err)
	}
	return file, nil
}

// redacted returns a capture with other names.
func redacted(ctx context.Context, file *capture.File) (*capture.File, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	setting, err := file.Setting(ctx)
	if err != nil {
		return nil, err
	}
	profile, err := setting.Profile(nil)
	if err != nil {
		return nil, err
	}
	return file.Redact(profile.Translators())
}

func newReplay(a *clientFlags) *cobra.Command {
	var config string
	command := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show what the scheduler decides in the cycle after a capture, without a cluster",
		Long: `Runs the cycle after a capture and shows its decisions, and why jobs wait. It is the cycle that the scheduler would run, with the same
decisions, except where the capture names what is inexact. It asks no cluster.

With --config it shows what changes with another configuration: lines with - are decided by the one of the capture alone, and those
with + by the other one.`,
		Example: `  kubectl tutti replay night.tutti
  kubectl tutti replay night.tutti --config new.yaml`,
		Args: cobra.ExactArgs(1),
	}
	command.Flags().StringVar(&config, "config", "", "file with another configuration of the scheduler")
	command.RunE = func(command *cobra.Command, args []string) error {
		file, err := readCapture(args[0])
		if err != nil {
			return err
		}
		var other []byte
		if config != "" {
			if other, err = os.ReadFile(config); err != nil {
				return fmt.Errorf("--config: %w", err)
			}
		}
		lines, err := replay(command.Context(), file, other)
		if err != nil {
			return err
		}
		out := a.command(command)
		out.Printf("Cycle %d, as of %s, captured with version %s; this is version %s.\n", file.Cycle+1, file.At.Format(time.DateTime), file.Version, version.Number())
		for _, line := range lines {
			out.Printf("%s\n", line)
		}
		for _, note := range file.Inexact {
			out.Printf("Inexact: %s.\n", note)
		}
		return nil
	}
	return command
}

// readCapture reads the file of a capture.
func readCapture(name string) (*capture.File, error) {
	opened, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	file, err := capture.Read(opened)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return file, nil
}

// openCapture makes the moment of a capture again, and what rehearsals of it need until the context ends.
func openCapture(ctx context.Context, file *capture.File) (*scheduler.Moment, *rehearse.Setting, error) {
	setting, err := file.Setting(ctx)
	if err != nil {
		return nil, nil, err
	}
	profile, err := setting.Profile(nil)
	if err != nil {
		return nil, nil, err
	}
	moment, err := file.Moment(profile.Translators())
	return moment, setting, err
}

// still is a loop that has stopped at a moment.
type still struct{ moment *scheduler.Moment }

func (s still) Moment(deliver func(*scheduler.Moment)) { deliver(s.moment) }

// askFile answers a question about a capture.
func askFile(ctx context.Context, name string, question *debugapi.Question) (*debugapi.Answer, error) {
	file, err := readCapture(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	moment, setting, err := openCapture(ctx, file)
	if err != nil {
		return nil, err
	}
	return rehearse.NewDesk(still{moment}, setting, clock.RealClock{}).Ask(ctx, question)
}

// replay returns what the cycle after a capture decides, and why jobs wait; with another configuration what differs with it.
func replay(ctx context.Context, file *capture.File, other []byte) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	moment, setting, err := openCapture(ctx, file)
	if err != nil {
		return nil, err
	}
	decided := func(configuration []byte) (lines []string, err error) {
		decisions, refusals, err := rehearse.Replay(ctx, moment, setting, configuration, file.At)
		for i := range decisions {
			lines = append(lines, decisionLines(&decisions[i])...)
		}
		for _, job := range slices.SortedFunc(maps.Keys(refusals), model.JobKey.Compare) {
			lines = append(lines, fmt.Sprintf("%s waits: %s: %s", job.Describe(), refusals[job].Code, refusals[job]))
		}
		return lines, err
	}
	then, err := decided(nil)
	if other == nil || err != nil {
		return then, err
	}
	now, err := decided(other)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, line := range then {
		if !slices.Contains(now, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range now {
		if !slices.Contains(then, line) {
			lines = append(lines, "+ "+line)
		}
	}
	if len(lines) == 0 {
		lines = append(lines, fmt.Sprintf("Both configurations decide the same: %d lines.", len(then)))
	}
	return lines, nil
}

// decisionLines writes a decision down, a line for each pod.
func decisionLines(decision *model.Decision) (lines []string) {
	add := func(format string, values ...any) {
		lines = append(lines, decision.Job.Describe()+": "+fmt.Sprintf(format, values...))
	}
	for _, bind := range decision.Binds {
		add("%s is bound to %s", bind.Pod.Name, bind.Node)
	}
	for _, eviction := range decision.Evictions {
		add("%s of %s is evicted from %s", eviction.Pod.Name, eviction.Job.Describe(), eviction.Node)
	}
	for _, nomination := range decision.Nominations {
		if nomination.Node == "" {
			add("%s is nominated to no node", nomination.Pod.Name)
		} else {
			add("%s is nominated to %s", nomination.Pod.Name, nomination.Node)
		}
	}
	if decision.Reservation != nil {
		add("%s", decision.Reservation.Describe())
	}
	return lines
}
