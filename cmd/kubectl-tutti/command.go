package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/version"
)

// newCommand returns the root command.
func newCommand(a *clientFlags) *cobra.Command {
	command := &cobra.Command{
		Use:   "kubectl-tutti",
		Short: "Ask Tutti, the gang scheduler, why jobs wait and what it does",
		Long: `kubectl tutti tells why a job waits, how all jobs stand, and what the scheduler sees and does.

why, status, get, when and what-if ask the scheduler, which takes the Role tutti-scheduler-inspect of its chart, in its namespace. Without it, why and
status print what is written to PodGroups and pods, as far as you may read them; why KIND/NAME takes the right to get that object, too.
pause and resume write a ConfigMap of the scheduler's namespace, or a Queue. Your own credentials go to the API server alone.`,
		Example: `  # why does this job wait?
  kubectl tutti why train

  # and why does this one, that an operator runs?
  kubectl tutti why mpijob/train

  # how do all jobs of all namespaces stand?
  kubectl tutti status -A

  # when will it start, and what if there were two more nodes?
  kubectl tutti when train
  kubectl tutti what-if --add-nodes 2 --like gpu-7

  # what does each queue hold, and for what do its jobs wait?
  kubectl tutti get queues -o wide`,
		Version:       version.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl tutti"},
	}
	a.AddFlags(command.PersistentFlags())
	command.AddCommand(newWhy(a), newStatus(a), newGet(a), newWhen(a), newWhatIf(a), newPause(a, "pause", true), newPause(a, "resume", false), newVersion(a))
	for verb, instead := range removed {
		command.AddCommand(&cobra.Command{
			Use: verb, Hidden: true, DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error { return fmt.Errorf("there is no %q: %s", verb, instead) },
		})
	}
	return command
}

// removed are verbs that are refused by name, and what to write in their place.
var removed = map[string]string{
	"nodes":   `write "get nodes", or "get domains" for --topology`,
	"queues":  `write "get queues"; "pause NAME" and "resume NAME" for queues pause and resume. Jobs that no queue takes stand below "get queues"`,
	"cycle":   `write "get cycles"`,
	"config":  `write "get config" for config show; tutti-scheduler --config FILE --explain-config checks a file, and --explain-config NAME explains a plugin`,
	"submit":  "write a PodGroup and a Job; the quickstart of the documentation has both",
	"convert": "the pages docs/from-*.md say what each field of other schedulers becomes",
}

// print prints lines, or an object where the flags name a format.
func (a *clientFlags) print(command *cobra.Command, flags *genericclioptions.PrintFlags, object runtime.Object, lines ...string) error {
	if *flags.OutputFormat == "" {
		for _, line := range lines {
			a.command(command).Printf("%s\n", line)
		}
		return nil
	}
	format, err := flags.ToPrinter()
	if err != nil {
		return fmt.Errorf("--output: %w", err)
	}
	return format.PrintObj(object, command.OutOrStdout())
}

// command returns the printer of a command.
func (a *clientFlags) command(command *cobra.Command) *printer.Printer {
	return printer.New(command.OutOrStdout(), a.environment)
}
