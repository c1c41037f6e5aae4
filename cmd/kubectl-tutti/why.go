package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
)

func newWhy(a *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a PodGroup or a pod waits, and what would let it start",
		Long: `Says why a PodGroup or a pod waits: what the scheduler found when it looked at it last, with numbers; the smallest change
that would let it start; its members, and which of them are missing, gated or have failed; since when it waits; and what room is
kept for it.

NAME is the name of a PodGroup, or of a group without an object, else of a pod; podgroup/NAME and pod/NAME say which of the two. It
needs the right to list the PodGroups and the pods of the namespace.`,
		Example: `  kubectl tutti why train
  kubectl tutti why -n ml pod/train-3
  kubectl tutti why train -o json | jq -r .smallestChange`,
		Args: oneOf("the name of a PodGroup or a pod"),
		RunE: func(command *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			found, err := a.why(command.Context(), args[0])
			if err != nil {
				return err
			}
			if printed, err := a.structured(command.OutOrStdout(), found); printed {
				return err
			}
			found.Write(a.command(command), a.now())
			return nil
		},
	}
}

// why reads the namespace and diagnoses the object.
func (a *clientFlags) why(ctx context.Context, what string) (*diagnose.Diagnosis, error) {
	kind, name, err := kindAndName(what)
	if err != nil {
		return nil, err
	}
	read, namespace, err := a.reader()
	if err != nil {
		return nil, err
	}
	known := &diagnose.Namespace{Name: namespace}
	if known.Groups, err = read.listGroups(ctx, namespace); err != nil {
		return nil, err
	}
	if known.Pods, err = read.listPods(ctx, namespace, metav1.ListOptions{}, nil); err != nil {
		return nil, err
	}
	return diagnose.Diagnose(known, kind, name)
}

// kindAndName splits "train", "podgroup/train" or "pod/train-0"; the first has no kind.
func kindAndName(what string) (diagnose.Kind, string, error) {
	kind, name, ok := strings.Cut(what, "/")
	if !ok {
		return diagnose.Any, what, nil
	}
	switch strings.ToLower(kind) {
	case "podgroup", "podgroups", "pg", "podgroup.scheduling.tutti.dev", "podgroups.scheduling.tutti.dev":
		return diagnose.PodGroup, name, nil
	case "pod", "pods", "po":
		return diagnose.Pod, name, nil
	}
	return diagnose.Any, "", fmt.Errorf("%q: say the name of a PodGroup or a pod, podgroup/NAME or pod/NAME", what)
}
