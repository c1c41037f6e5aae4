package main

import (
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tutti-sched/tutti/internal/configuration"
)

// newPause returns the command that pauses the scheduler, or the one that resumes it: each writes one key of the ConfigMap that
// replaces parts of the chart's configuration, which no upgrade of the chart touches.
func newPause(a *clientFlags, verb string, paused bool) *cobra.Command {
	short, long := "Let no job start, and evict no pod, until resume", `Keeps all jobs waiting that have not begun, with the reason Paused, until "kubectl tutti resume". No pod is evicted. Pods that run
are not touched, and starts that have begun are completed. It lasts through restarts and upgrades.`
	if !paused {
		short, long = "Let jobs start again", `Ends what "kubectl tutti pause" began. A configuration that says pause: true keeps the scheduler paused.`
	}
	var namespace, name string
	command := &cobra.Command{
		Use:     verb,
		Short:   short,
		Long:    long + "\n\nIt takes the right to patch the ConfigMap tutti-scheduler-override.",
		Example: "  kubectl tutti " + verb,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			read, _, err := a.reader()
			if err != nil {
				return err
			}
			patch := fmt.Appendf(nil, `{"data":{%q:"%t"}}`, configuration.PauseKey, paused)
			written, err := read.pods.CoreV1().ConfigMaps(namespace).Patch(
				command.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "kubectl-tutti"})
			if err != nil {
				return fmt.Errorf("%s, in ConfigMap %s/%s: %w%s", verb, namespace, name, err, overrideHint(err))
			}
			p := a.command(command)
			if printed, err := a.structured(p, written); printed {
				return err
			}
			if paused {
				p.Printf("paused: no job starts until kubectl tutti resume\n")
			} else {
				p.Printf("resumed: jobs start again\n")
			}
			return nil
		},
	}
	command.Flags().StringVar(&namespace, "scheduler-namespace", "tutti-system", "namespace of the scheduler")
	command.Flags().StringVar(&name, "override", "tutti-scheduler-override", "name of the ConfigMap, where the chart has another fullnameOverride")
	return command
}

// overrideHint says what to do where the ConfigMap does not exist; empty for another error.
func overrideHint(err error) string {
	if !apierrors.IsNotFound(err) {
		return ""
	}
	return "; say --scheduler-namespace or --override where the scheduler runs elsewhere"
}
