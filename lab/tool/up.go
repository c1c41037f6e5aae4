package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// upCommand starts a cluster and keeps it until it is interrupted.
func upCommand() *cobra.Command {
	var (
		options   cluster.Options
		nodes     int
		resources map[string]string
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			options.Out = cmd.ErrOrStderr()
			c, err := cluster.Start(ctx, options)
			if err != nil {
				return err
			}
			defer c.Stop()
			if err := c.CreateNodes(ctx, cluster.Nodes("node", nodes, resources)...); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d nodes. In another shell:\n\n  export KUBECONFIG=%s\n  %s get nodes\n\nCtrl-C ends it.\n",
				nodes, c.Kubeconfig(), c.Program(binaries.Kubectl))
			return c.Wait(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.BoolVar(&options.ControllerManager, "controller-manager", true, "run kube-controller-manager")
	flags.BoolVar(&options.Scheduler, "kube-scheduler", true, "run kube-scheduler for pods that are not Tutti's")
	flags.BoolVar(&options.Kwok, "kwok", true, "run kwok, which plays the kubelet of every node")
	flags.StringVar(&options.Dir, "dir", "", "keep logs and kubeconfigs in this folder")
	flags.IntVar(&nodes, "nodes", 3, "how many nodes to create")
	flags.StringToStringVar(&resources, "resources", map[string]string{"cpu": "8", "memory": "64Gi"}, "what each node offers")
	return cmd
}
