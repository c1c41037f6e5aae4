// Command podgroups prints the PodGroups that wait, and why: an example of a program that uses the API of Tutti and its client.
// Its module requires apis alone, and none of the replacements that Kubernetes itself needs.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tutti-sched/tutti/apis/client/clientset/versioned"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "podgroups:", err)
		os.Exit(1)
	}
}

// run asks the cluster of the user's kubeconfig.
func run(ctx context.Context, out io.Writer) error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return err
	}
	client, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	return printWaiting(ctx, client, out)
}

// printWaiting prints a line for each PodGroup whose condition Scheduled is false.
func printWaiting(ctx context.Context, client versioned.Interface, out io.Writer) error {
	groups, err := client.SchedulingV1alpha1().PodGroups(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list PodGroups: %w", err)
	}
	for i := range groups.Items {
		group := &groups.Items[i]
		scheduled := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionScheduled)
		if scheduled == nil || scheduled.Status != metav1.ConditionFalse {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s/%s: %s: %s\n", group.Namespace, group.Name, scheduled.Reason, scheduled.Message); err != nil {
			return err
		}
	}
	return nil
}
