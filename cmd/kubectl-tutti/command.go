package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/version"
)

// newCommand returns the root command.
func newCommand() *cobra.Command {
	return newSubcommand(&clientFlags{environment: os.Getenv, now: time.Now})
}

func newSubcommand(a *clientFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-tutti",
		Short: "Ask Tutti, the gang scheduler, why jobs wait and what it does",
		Long: `kubectl tutti tells why a job waits, how all jobs stand, and what the scheduler sees and does.

why, status, queues and submit need no more than the right to read (and, for submit, to create) PodGroups, pods and Queues, and why
KIND/NAME to read that object. config lint, queues convert and convert read files alone. nodes,
cycle, config show and why -v ask the scheduler itself: they need the Role tutti-scheduler-inspect of its chart, in its namespace.
pause and resume write a ConfigMap of the scheduler's namespace.
Your own credentials go to the API server alone.`,
		Example: `  # why does this job wait?
  kubectl tutti why train

  # and why does this one, that an operator runs?
  kubectl tutti why mpijob/train

  # how do all jobs of all namespaces stand?
  kubectl tutti status -A

  # is this configuration right?
  kubectl tutti config lint scheduler.yaml`,
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tutti"},
	}
	a.addFlags(command.PersistentFlags())
	command.AddCommand(newWhy(a), newStatus(a), newQueues(a), newNodes(a), newCycle(a), newConfig(a), newPause(a, "pause", true),
		newPause(a, "resume", false), newSubmit(a), newConvert(a), newVersion(a))
	return command
}

func newVersion(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: `  kubectl tutti version`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			p := a.command(command)
			if printed, err := a.structured(p, map[string]string{"version": version.Version()}); printed {
				return err
			}
			p.Printf("%s\n", version.Version())
			return nil
		},
	}
}

// command returns the printer of a command.
func (a *clientFlags) command(command *cobra.Command) *printer.Printer {
	return printer.New(command.OutOrStdout(), a.environment)
}

// oneOf requires exactly one argument, and names it in the error.
func oneOf(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("give %s, and nothing else: %s", what, command.UseLine())
		}
		return nil
	}
}

// atLeastOne requires arguments, and names the first one in the error.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("give %s: %s", what, command.UseLine())
		}
		return nil
	}
}
