package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// buildCommand builds the programs of a control plane.
func buildCommand() *cobra.Command {
	var kubernetes string
	cmd := &cobra.Command{
		Use:       "build [program...]",
		Short:     "Build the programs of a control plane (all, or the named ones)",
		Long:      "Build the programs of a control plane from their Go modules: " + strings.Join(binaries.Names(), ", ") + ".",
		ValidArgs: binaries.Names(),
		RunE: func(cmd *cobra.Command, names []string) error {
			set, err := binaries.Ensure(cmd.Context(), kubernetes, cmd.ErrOrStderr(), names...)
			if err != nil {
				return err
			}
			for _, name := range binaries.Names() {
				if path := set.Path(name); path != "" {
					fmt.Fprintln(cmd.OutOrStdout(), path)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	return cmd
}
