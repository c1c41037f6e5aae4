package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/paper"
)

// newCommand returns the command with all that it can do.
func newCommand() *cobra.Command {
	return commandOf(&access{environment: os.Getenv, now: time.Now})
}

func commandOf(a *access) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-tutti",
		Short: "Ask Tutti, the gang scheduler, why jobs wait and what it does",
		Long: `kubectl tutti tells why a job waits, how all jobs stand, and what the scheduler sees and does.

why, status and submit need no more than the right to read (and, for submit, to create) PodGroups and pods. nodes, cycle and
config show ask the scheduler itself, which wants the ClusterRole tutti-scheduler-inspect of its chart.`,
		Example: `  # why does this job wait?
  kubectl tutti why train

  # how do all jobs of all namespaces stand?
  kubectl tutti status -A

  # is this configuration right?
  kubectl tutti config lint scheduler.yaml`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tutti"},
	}
	a.addFlags(command.PersistentFlags())
	command.AddCommand(newWhy(a), newStatus(a), newNodes(a), newCycle(a), newConfig(a), newSubmit(a))
	return command
}

// sheet returns what a command prints on.
func (a *access) sheet(command *cobra.Command) *paper.Paper {
	return paper.New(command.OutOrStdout(), a.environment)
}

// version is what the build knows of itself.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return build.Main.Version + " with " + build.GoVersion
}
