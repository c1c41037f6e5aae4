package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/paper"
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
	command.AddCommand(newConfigShow(a))
	return command
}

func newConfigShow(a *access) *cobra.Command {
	k := &asker{access: a}
	command := &cobra.Command{
		Use:   "show",
		Short: "Show the configuration that the scheduler runs with",
		Long: `Shows the configuration that the scheduler runs with, as it was written; where it came from and since when it has been in use;
and the newer one that was refused, if there is one, with everything that is wrong with it. -o wide also shows which plugin answers
which question.

It asks the scheduler; see "kubectl tutti --help" for the rights it takes.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := k.checkOutput(outputWide); err != nil {
				return err
			}
			var shown inspect.Config
			if err := k.ask(command.Context(), inspect.PathConfig, &shown); err != nil {
				return err
			}
			if printed, err := k.structured(command.OutOrStdout(), shown); printed {
				return err
			}
			writeConfig(k.sheet(command), &shown, k.output == outputWide)
			return nil
		},
	}
	k.addFlags(command.Flags())
	return command
}

// writeConfig prints the configuration as a file that could be used again: all else is in comments.
func writeConfig(p *paper.Paper, shown *inspect.Config, wide bool) {
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
	if wide && shown.Explanation != "" {
		comment(paper.Faint, "\n"+shown.Explanation)
	}
	p.Printf("%s\n", strings.TrimRight(shown.Text, "\n"))
}
