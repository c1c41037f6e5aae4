package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/tutti-sched/tutti/internal/debugapi"
	"github.com/tutti-sched/tutti/internal/version"
)

func newVersion(a *clientFlags) *cobra.Command {
	endpoint := &endpointFlags{clientFlags: a}
	format := genericclioptions.NewPrintFlags("")
	var client bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this program and of the scheduler",
		Long: `Shows the version of this program, and that of the scheduler that leads. Where the scheduler may not be asked (see
"kubectl tutti --help"), it says why.`,
		Example: `  kubectl tutti version
  kubectl tutti version --client`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			object := map[string]any{"kind": "Version", "apiVersion": debugapi.GroupVersion, "version": version.Version()}
			lines := []string{"kubectl tutti: " + version.Version()}
			if !client {
				scheduler, err := endpoint.schedulerVersion(command.Context())
				if err != nil {
					lines = append(lines, "scheduler:     not known: "+err.Error())
				} else {
					lines = append(lines, "scheduler:     "+scheduler)
					object["scheduler"] = scheduler
					if number(scheduler) != version.Number() {
						lines = append(lines, "The versions differ: use the kubectl tutti of the scheduler's version.")
					}
				}
			}
			return a.print(command, format, &unstructured.Unstructured{Object: object}, lines...)
		},
	}
	endpoint.addFlags(command.Flags())
	format.AddFlags(command)
	command.Flags().BoolVar(&client, "client", false, "show the version of this program only, and ask no cluster")
	return command
}

// schedulerVersion asks the scheduler that leads for its version.
func (k *endpointFlags) schedulerVersion(ctx context.Context) (string, error) {
	list := &debugapi.ConfigList{}
	if err := k.get(ctx, debugapi.PathConfig, "", list); err != nil {
		return "", err
	}
	if len(list.Items) == 0 || list.Items[0].Version == "" {
		return "", errors.New("it does not say, and so is older than this program")
	}
	return list.Items[0].Version, nil
}

// number returns the number in a version such as "0.1.0 with go1.26.8".
func number(text string) string {
	number, _, _ := strings.Cut(text, " ")
	return number
}
