package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/paper"
	"github.com/tutti-sched/tutti/pkg/configuration"
	"github.com/tutti-sched/tutti/pkg/inspect"
)

func newConfig(a *access) *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Show, check and explain the scheduler's configuration",
		Example: `  kubectl tutti config show
  kubectl tutti config lint scheduler.yaml
  kubectl tutti config explain nodeorder`,
	}
	command.AddCommand(newConfigShow(a), newConfigLint(a), newConfigExplain())
	return command
}

func newConfigLint(a *access) *cobra.Command {
	return &cobra.Command{
		Use:   "lint FILE",
		Short: "Check a configuration as the scheduler would, without a cluster",
		Long: `Reads a configuration as the scheduler would at its start, and tells everything that is wrong with it, by line, and what works
but should be written differently. - reads from standard input. It asks nobody: neither the API server nor a scheduler. It fails
when the scheduler would.`,
		Example: `  kubectl tutti config lint scheduler.yaml
  kubectl get configmap -n tutti-system tutti-scheduler -o jsonpath='{.data.scheduler\.yaml}' | kubectl tutti config lint -`,
		Args: oneOf("a file, or - for standard input"),
		RunE: func(command *cobra.Command, args []string) error {
			file, text, err := readFile(args[0], command.InOrStdin())
			if err != nil {
				return err
			}
			p := a.sheet(command)
			warnings, err := configuration.Lint(command.Context(), file, text)
			for _, warning := range warnings {
				p.Printf("%s %s\n", p.Paint(paper.Warning, "warning:"), warning.String())
			}
			if err != nil {
				return fmt.Errorf("the scheduler would refuse it:\n%w", err)
			}
			p.Printf("%s\n", p.Paint(paper.Good, file+" is fine"))
			return nil
		},
	}
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

func newConfigExplain() *cobra.Command {
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
			_, err = fmt.Fprint(command.OutOrStdout(), text)
			return err
		},
	}
}

func newConfigShow(a *access) *cobra.Command {
	k := &asker{access: a}
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
			var shown inspect.Config
			if err := k.ask(command.Context(), inspect.PathConfig, &shown); err != nil {
				return err
			}
			if printed, err := k.structured(command.OutOrStdout(), shown); printed {
				return err
			}
			writeConfig(k.sheet(command), &shown)
			return nil
		},
	}
	k.addFlags(command.Flags())
	return command
}

// writeConfig prints the configuration as a file that could be used again: all else is in comments.
func writeConfig(p *paper.Paper, shown *inspect.Config) {
	comment := func(style paper.Style, text string) {
		for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			p.Printf("%s\n", p.Paint(style, strings.TrimRight("# "+line, " ")))
		}
	}
	revision := ""
	if shown.Revision != "" {
		revision = ", revision " + shown.Revision
	}
	comment(paper.Faint, "From: "+shown.Source+revision)
	comment(paper.Faint, "In use since "+shown.Since.UTC().Format(time.RFC3339))
	if shown.Refused != nil {
		what := "A newer one"
		if shown.Refused.Revision != "" {
			what += ", revision " + shown.Refused.Revision + ","
		}
		comment(paper.Bad, what+" was refused at "+shown.Refused.At.UTC().Format(time.RFC3339)+":")
		comment(paper.Bad, shown.Refused.Error)
	}
	p.Printf("%s\n", strings.TrimRight(shown.Text, "\n"))
}
