package main

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/configuration"
)

// newPause returns the command that pauses the scheduler or a queue, or the one that resumes it. The first writes one key of the
// ConfigMap that replaces parts of the chart's configuration, which no upgrade of the chart touches; the second the Queue.
func newPause(a *clientFlags, verb string, paused bool) *cobra.Command {
	done := "paused: no job starts until kubectl tutti resume"
	short, long := "Let no job start, of all or of a queue, and evict no pod, until resume", `Keeps all jobs waiting that have not begun, with the reason Paused, until "kubectl tutti resume". No pod is evicted. Pods that run
are not touched, and starts that have begun are completed. It lasts through restarts and upgrades.

With the name of a Queue, no job of that queue and of those below it starts.`
	if !paused {
		done = "resumed: jobs start again"
		short, long = "Let jobs start again, all or those of a queue", `Ends what "kubectl tutti pause" began. A configuration that says pause: true keeps the scheduler paused.`
	}
	var namespace, name string
	format := genericclioptions.NewPrintFlags("")
	command := &cobra.Command{
		Use:     verb + " [QUEUE]",
		Short:   short,
		Long:    long + "\n\nIt needs the right to patch the ConfigMap tutti-scheduler-override, or the Queue.",
		Example: "  kubectl tutti " + verb + "\n  kubectl tutti " + verb + " research",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if _, err := format.ToPrinter(); err != nil { // before anything is written
				return fmt.Errorf("--output: %w", err)
			}
			read, err := a.reader()
			if err != nil {
				return err
			}
			options := metav1.PatchOptions{FieldManager: "kubectl-tutti"}
			if len(args) == 1 {
				patch := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
				queue, err := read.groups.SchedulingV1alpha1().Queues().Patch(command.Context(), args[0], types.MergePatchType, patch, options)
				if err != nil {
					return fmt.Errorf("%s Queue %q: %w", verb, args[0], err)
				}
				queue.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind("Queue"))
				return a.print(command, format, queue, fmt.Sprintf("queue %s: paused is %t", queue.Name, queue.Spec.Paused))
			}
			patch := fmt.Appendf(nil, `{"data":{%q:"%t"}}`, configuration.PauseKey, paused)
			written, err := read.pods.CoreV1().ConfigMaps(namespace).Patch(command.Context(), name, types.MergePatchType, patch, options)
			if err != nil {
				hint := ""
				if apierrors.IsNotFound(err) {
					hint = "; say --scheduler-namespace or --override where the scheduler runs elsewhere"
				}
				return fmt.Errorf("%s, in ConfigMap %s/%s: %w%s", verb, namespace, name, err, hint)
			}
			written.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			return a.print(command, format, written, done)
		},
	}
	format.AddFlags(command)
	command.Flags().StringVar(&namespace, "scheduler-namespace", "tutti-system", "namespace of the scheduler")
	command.Flags().StringVar(&name, "override", "tutti-scheduler-override", "name of the ConfigMap, where the chart has another fullnameOverride")
	return command
}
