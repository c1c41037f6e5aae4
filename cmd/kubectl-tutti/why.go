package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/diagnose"
	"github.com/tutti-sched/tutti/cmd/kubectl-tutti/printer"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

func newWhy(a *clientFlags) *cobra.Command {
	k := &endpointFlags{clientFlags: a}
	var verbose bool
	command := &cobra.Command{
		Use:   "why NAME",
		Short: "Say why a PodGroup or a pod waits, and what would let it start",
		Long: `Says why a PodGroup or a pod waits: what the scheduler found when it looked at it last, with numbers; the smallest change
that would let it start; its members, and which of them are missing, gated or have failed; since when it waits; and what capacity is
kept for it.

NAME is the name of a PodGroup, or of a group without an object, else of a pod; podgroup/NAME and pod/NAME say which of the two. It
needs the right to list the PodGroups and the pods of the namespace.

With -v it also shows how the scheduler came to its reason: what each action of the last cycle said, in order; the last line of a
job is its reason. "engine" is no action: a panic has ended the cycle before the job had its turn. That asks the scheduler; see
"kubectl tutti --help" for the rights it takes.`,
		Example: `  kubectl tutti why train
  kubectl tutti why -n ml pod/train-3
  kubectl tutti why train -v
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
			explained := explanation{Diagnosis: found}
			if verbose {
				if explained.Refusals, err = k.refusals(command.Context(), found); err != nil {
					return err
				}
			}
			if printed, err := a.structured(command.OutOrStdout(), explained); printed {
				return err
			}
			found.Write(a.command(command), a.now())
			if verbose {
				writeRefusals(a.command(command), explained.Refusals)
			}
			return nil
		},
	}
	k.addFlags(command.Flags())
	command.Flags().BoolVarP(&verbose, "verbose", "v", false, "also show what each action of the last cycle said; asks the scheduler")
	return command
}

// explanation is a diagnosis, with how the scheduler came to it.
type explanation struct {
	*diagnose.Diagnosis
	Refusals *debugapi.Refusals `json:"refusals,omitempty"`
}

// refusals reads what the last cycle said of a PodGroup or a pod, or of the pod's group.
func (k *endpointFlags) refusals(ctx context.Context, found *diagnose.Diagnosis) (*debugapi.Refusals, error) {
	name := found.Name
	if found.Group != nil {
		name = found.Group.Name
	}
	query := url.Values{"namespace": {found.Namespace}, "name": {name}}
	said := &debugapi.Refusals{}
	return said, k.get(ctx, debugapi.PathRefusals+"?"+query.Encode(), said)
}

func writeRefusals(p *printer.Printer, said *debugapi.Refusals) {
	p.Printf("\n")
	switch {
	case !said.Leading:
		p.Printf("This scheduler does not lead: it runs no cycles.\n")
		return
	case len(said.Refusals) == 0:
		p.Printf("The last cycle did not refuse it.\n")
		return
	}
	var rows [][]printer.Cell
	for _, refusal := range said.Refusals {
		rows = append(rows, printer.Cells(refusal.Job, refusal.Action, refusal.Code, refusal.Reason))
	}
	p.Table([]string{"JOB", "ACTION", "CODE", "REASON"}, rows)
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
