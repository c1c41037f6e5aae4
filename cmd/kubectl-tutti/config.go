package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/configuration"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

func newConfig(a *clientFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Show, check and explain the scheduler's configuration",
		Example: `  kubectl tutti config show
  kubectl tutti config lint scheduler.yaml
  kubectl tutti config explain nodeorder`,
	}
	command.AddCommand(newConfigShow(a), newConfigLint(a), newConfigExplain(a))
	return command
}

func newConfigLint(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE",
		Short: "Check a configuration as the scheduler would, without a cluster",
		Long: `Reads a configuration as the scheduler would at its start, and reports everything that is wrong with it, by line, and what works
but should be written differently. - reads from standard input. It asks neither the API server nor a scheduler. It fails when the
scheduler would.`,
		Example: `  kubectl tutti config lint scheduler.yaml
  kubectl tutti config lint scheduler.yaml -o json
  kubectl get configmap -n tutti-system tutti-scheduler -o jsonpath='{.data.scheduler\.yaml}' | kubectl tutti config lint -`,
		Args: oneOf("a file, or - for standard input"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			file, text, err := readFile(args[0], command.InOrStdin())
			if err != nil {
				return err
			}
			p := a.command(command)
			catalogue, err := configuration.Offline(command.Context())
			if err != nil {
				return err
			}
			warnings, err := configuration.Lint(catalogue, file, text)
			if printed, wrong := a.structured(p, newLinted(file, warnings, err)); wrong != nil {
				return wrong
			} else if printed && err != nil {
				return errors.New("the scheduler would refuse it")
			} else if printed {
				return nil
			}
			for _, warning := range warnings {
				p.Printf("%s %s\n", printer.Cell{Text: "warning:", Style: printer.Warning}, warning.String())
			}
			if err != nil {
				return fmt.Errorf("the scheduler would refuse it:\n%w", err)
			}
			p.Lines(printer.Green, file+" is fine")
			return nil
		},
	}
}

// linted is the result of lint as JSON or YAML.
type linted struct {
	// File is where the configuration was read from.
	File string `json:"file"`
	// Refused reports whether the scheduler would refuse it.
	Refused bool `json:"refused"`
	// Errors are the reasons, Warnings what works and should be written differently.
	Errors   []finding `json:"errors"`
	Warnings []finding `json:"warnings"`
}

// finding is one error or warning.
type finding struct {
	// Line counts from 1; without one, it is about the file as a whole.
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`
}

func newLinted(file string, warnings []config.Warning, err error) *linted {
	found := &linted{File: file, Refused: err != nil, Errors: []finding{}, Warnings: []finding{}}
	for _, one := range config.Errors(err) {
		found.Errors = append(found.Errors, finding{one.Position.Line, one.Text})
	}
	for _, one := range warnings {
		found.Warnings = append(found.Warnings, finding{one.Position.Line, one.Text})
	}
	return found
}

// readFile reads the file of that name, or standard input when it is "-".
func readFile(name string, stdin io.Reader) (file string, text []byte, err error) {
	if name == "-" {
		text, err = io.ReadAll(stdin)
		return "stdin", text, err
	}
	text, err = os.ReadFile(name)
	return name, text, err
}

func newConfigExplain(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Say what an action or a plugin does, and what its arguments mean",
		Long: `Says what an action or a plugin of this build does, and what its arguments are: their types, defaults and ranges. Without a name
it lists all of them.`,
		Example: `  kubectl tutti config explain
  kubectl tutti config explain backfill`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			text, err := configuration.Explain(strings.Join(args, ""))
			if err != nil {
				return err
			}
			a.command(command).Lines(printer.Plain, text)
			return nil
		},
	}
}

func newConfigShow(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	command := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration that the scheduler runs with",
		Long: `Shows the configuration that the scheduler runs with, as it was written; where it came from and since when it has been in use;
and the newer one that was refused, if there is one, with everything that is wrong with it.

It asks the scheduler; see "kubectl tutti --help" for the rights it takes.`,
		Example: `  kubectl tutti config show
  kubectl tutti config show > scheduler.yaml   # can be used again: all else is in comments`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := k.checkOutput(); err != nil {
				return err
			}
			var shown debugapi.Config
			if err := k.get(command.Context(), debugapi.PathConfig, &shown); err != nil {
				return err
			}
			p := k.command(command)
			if printed, err := k.structured(p, shown); printed {
				return err
			}
			writeConfig(p, &shown)
			return nil
		},
	}
	k.addFlags(command.Flags())
	return command
}

// writeConfig prints the configuration as a file that could be used again: everything else is in comments.
func writeConfig(p *printer.Printer, shown *debugapi.Config) {
	comment := func(style printer.Style, text string) {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			p.Lines(style, strings.TrimRight("# "+line, " "))
		}
	}
	revision := ""
	if shown.Revision != "" {
		revision = ", revision " + shown.Revision
	}
	comment(printer.Dim, "From: "+shown.Source+revision)
	if shown.Paused != "" {
		comment(printer.Warning, "Paused: "+shown.Paused+"; kubectl tutti resume ends it")
	}
	comment(printer.Dim, "In use since "+shown.Since.UTC().Format(time.RFC3339))
	if shown.Refused != nil {
		what := "A newer one"
		if shown.Refused.Revision != "" {
			what += ", revision " + shown.Refused.Revision + ","
		}
		comment(printer.Red, what+" was refused at "+shown.Refused.At.UTC().Format(time.RFC3339)+":")
		comment(printer.Red, shown.Refused.Error)
	}
	p.Lines(printer.Plain, shown.Text)
}
