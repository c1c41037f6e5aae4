package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tutti-sched/tutti/lab/node"
)

// Machines are the real nodes, in the order of their names.
func (c *Cluster) Machines() []*node.Machine { return c.machines }

// Import makes the images of an archive known to all real nodes.
func (c *Cluster) Import(ctx context.Context, archive string) error {
	group, running := errgroup.WithContext(ctx)
	for _, m := range c.machines {
		group.Go(func() error { return m.Import(running, archive) })
	}
	return group.Wait()
}

// startMachines starts the real nodes, all at the same time, and returns when all of them are ready.
func (c *Cluster) startMachines(ctx context.Context) error {
	if c.network == nil {
		return nil
	}
	programs, err := node.Build(ctx, c.programs.Kubernetes, c.options.Out)
	if err != nil {
		return err
	}
	if err := c.startDNS(ctx, programs.DNS); err != nil {
		return err
	}
	c.machines = make([]*node.Machine, c.options.RealNodes)
	group, running := errgroup.WithContext(ctx)
	for i := range c.machines {
		group.Go(func() error {
			m, err := c.network.Start(running, i, node.Spec{
				Name: fmt.Sprintf("real-%d", i), Programs: programs, Kubeconfig: c.Kubeconfig(),
				Logs: filepath.Join(c.dir, "logs"), Out: c.options.Out,
			})
			if err != nil {
				return err
			}
			c.machines[i] = m
			return c.awaitNode(running, m.Name())
		})
	}
	return group.Wait()
}

// startDNS starts the server of the names of Services and pods, where the nodes' pods ask.
func (c *Cluster) startDNS(ctx context.Context, program string) error {
	file, ready := filepath.Join(c.dir, "kubeconfig", "Corefile"), c.network.Address()+":8181"
	text := fmt.Sprintf("cluster.local 198.19.0.0/16 {\n  bind %s\n  ready %s\n  errors\n  kubernetes {\n    kubeconfig %s lab\n  }\n}\n",
		c.network.Address(), ready, c.Kubeconfig())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("file for coredns: %w", err)
	}
	p, err := c.Run("coredns", program, "-conf", file)
	if err != nil {
		return err
	}
	return WaitReady(ctx, p, "http://"+ready+"/ready")
}

// awaitNode waits until a node is ready.
func (c *Cluster) awaitNode(ctx context.Context, name string) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	begin, last := time.Now(), "it has not registered itself"
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		found, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil // not yet
		}
		for _, condition := range found.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				last = condition.Message
				return condition.Status == corev1.ConditionTrue, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("node %s did not become ready: %w (%s)", name, err, last)
	}
	fmt.Fprintf(c.options.Out, "  %s: ready after another %s\n", name, time.Since(begin).Round(10*time.Millisecond))
	return nil
}
