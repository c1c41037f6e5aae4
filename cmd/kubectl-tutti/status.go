package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/tutti-sched/tutti/internal/debugapi"
)

func newStatus(a *clientFlags) *cobra.Command {
	g := &getOptions{endpointFlags: endpointFlags{clientFlags: a}, format: genericclioptions.NewPrintFlags("")}
	var labelled string
	var schedulers []string
	command := &cobra.Command{
		Use:   "status [NAME...]",
		Short: "Show how all jobs stand: their phases, members, ages, and why they wait",
		Long: `Shows the PodGroups, the groups without an object, and the pods that are in none, as the scheduler knows them. MEMBERS are those that
exist, of those that are needed; WAITS is since when a job has had all its members and has waited for capacity.

Where the scheduler may not be asked (see "kubectl tutti --help"), it shows what is written of them: the statuses of PodGroups, and the
conditions of the pods that wait. How many members a group without a PodGroup needs is in its message then.

With -l it shows the PodGroups with these labels and, of groups without an object, those whose oldest pod has them. With --watch it goes
on until it is interrupted, and shows each job again when something of it has changed.`,
		Example: `  kubectl tutti status
  kubectl tutti status -A -o wide
  kubectl tutti status -l team=vision --watch
  kubectl tutti status -A -o json | jq -r '.items[] | select(.reason == "InsufficientResources") | .metadata.name'`,
		ValidArgsFunction: g.completeJobs,
		RunE: func(command *cobra.Command, names []string) error {
			selector, err := labels.Parse(labelled)
			if err != nil {
				return fmt.Errorf("--selector %q: %w", labelled, err)
			}
			_, namespace, err := g.load()
			if err != nil {
				return err
			}
			if g.everywhere {
				namespace = ""
			}
			return g.run(command, g.jobDocument(namespace, selector, schedulers), names)
		},
	}
	g.addFlags(command.Flags())
	g.addPrintFlags(command)
	command.Flags().BoolVarP(&g.everywhere, "all-namespaces", "A", false, "jobs of all namespaces")
	command.Flags().StringVarP(&labelled, "selector", "l", "", "label query, such as team=vision,stage!=test")
	command.Flags().StringArrayVar(&schedulers, "scheduler-name", []string{defaultScheduler},
		"schedulerName that Tutti serves, where it may not be asked; may be given more than once")
	return command
}

// jobDocument is the list of the jobs of a namespace, of all namespaces when it is empty, that a selector selects. Who may
// not ask the scheduler gets the one that is made of the PodGroups and of the pods of these schedulers.
func (g *getOptions) jobDocument(namespace string, selector labels.Selector, schedulers []string) document {
	return document{
		path: jobsPath(namespace, selector), item: "Job",
		otherwise: func(ctx context.Context, unasked error) (*debugapi.JobList, error) {
			read, err := g.reader()
			if err != nil {
				return nil, err
			}
			found, err := read.objects(ctx, namespace, schedulers)
			if err != nil {
				return nil, err
			}
			list := found.jobs(g.now(), schedulers)
			list.Select(selector)
			list.Notes = append(list.Notes, aside(unasked))
			return list, nil
		},
	}
}

func jobsPath(namespace string, selector labels.Selector) string {
	return debugapi.PathJobs + "?" + url.Values{"namespace": {namespace}, "labelSelector": {selector.String()}}.Encode()
}
