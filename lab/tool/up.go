package main

import (
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/levels"
)

// upCommand starts a cluster and keeps it until it is interrupted.
func upCommand() *cobra.Command {
	var (
		options   cluster.Options
		nodes     int
		resources map[string]string
		nodesFile string
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it until Ctrl-C",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			options.Out = cmd.ErrOrStderr()
			list, note, err := nodesOf(nodesFile, nodes, resources)
			if err != nil {
				return err
			}
			c, err := cluster.Start(ctx, options)
			if err != nil {
				return err
			}
			defer c.Stop()
			if err := c.CreateNodes(ctx, list...); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s%d nodes. In another shell:\n\n  export KUBECONFIG=%s\n  %s get nodes\n\nCtrl-C ends it.\n",
				note, len(list), c.Kubeconfig(), c.Program(binaries.Kubectl))
			return c.Wait(ctx)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&options.Kubernetes, "k8s", binaries.DefaultKubernetes, "the version of Kubernetes")
	flags.BoolVar(&options.ControllerManager, "controller-manager", true, "run kube-controller-manager")
	flags.BoolVar(&options.Scheduler, "kube-scheduler", true, "run kube-scheduler for pods that are not Tutti's")
	flags.BoolVar(&options.Kwok, "kwok", true, "run kwok, which plays the kubelet of every node")
	flags.IntVar(&options.RealNodes, "real-nodes", 0, "how many nodes have a kubelet and run containers, beside the others; they need root")
	flags.StringVar(&options.Dir, "dir", "", "keep logs and kubeconfigs in this folder")
	flags.IntVar(&nodes, "nodes", 3, "how many nodes to create")
	flags.StringToStringVar(&resources, "resources", map[string]string{"cpu": "8", "memory": "64Gi"}, "what each node offers")
	flags.StringVar(&nodesFile, "nodes-file", "",
		"create nodes in the blocks, racks and cliques of this file, such as levels.yaml, and print the topologies for the scheduler's configuration")
	cmd.MarkFlagsMutuallyExclusive("nodes-file", "nodes")
	cmd.MarkFlagsMutuallyExclusive("nodes-file", "resources")
	return cmd
}

// nodesOf returns the nodes of a file, and what to say of them; without a file so many nodes that offer the same.
func nodesOf(file string, count int, resources map[string]string) (nodes []*corev1.Node, note string, err error) {
	if file == "" {
		return cluster.Nodes("node", count, resources), "", nil
	}
	read, err := levels.Read(file)
	if err != nil {
		return nil, "", err
	}
	return read.Nodes(), "For the scheduler's configuration:\n\n" + read.Configuration() + "\n", nil
}
