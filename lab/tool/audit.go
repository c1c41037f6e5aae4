package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tutti-sched/tutti/lab/audit"
	"github.com/tutti-sched/tutti/lab/harness"
)

// auditCommand judges a cluster from outside.
func auditCommand() *cobra.Command {
	var kubeconfig, schedulerName string
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Judge a cluster at rest: partial gangs, overcommitted nodes, reasons, and whether a waiting gang would fit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
			}
			config.QPS = -1
			state, err := audit.Read(cmd.Context(), config)
			if err != nil {
				return err
			}
			report := audit.Audit(state, schedulerName)
			report.Write(cmd.OutOrStdout())
			return report.Err()
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "the cluster's kubeconfig file")
	cmd.Flags().StringVar(&schedulerName, "scheduler-name", harness.SchedulerName, "whose pods to judge")
	return cmd
}
