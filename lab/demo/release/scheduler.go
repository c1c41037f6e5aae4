package release

import (
	"context"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// Start runs the scheduler program as the release has it, beside the cluster, and returns when it is ready. Two things
// differ from a pod: a kubeconfig carries the token, and the ports are free ones of the loopback interface. more arguments come
// after those; the last of a kind wins.
func (r *Release) Start(ctx context.Context, c *cluster.Cluster, name, program string, more ...string) (*process.Process, error) {
	kubeconfig, err := c.KubeconfigFor(ctx, r.Namespace, r.ServiceAccount)
	if err != nil {
		return nil, err
	}
	health, err := cluster.FreeAddress()
	if err != nil {
		return nil, err
	}
	p, err := c.Run(name, program, slices.Concat(r.localArgs(health), []string{"--kubeconfig=" + kubeconfig}, more)...)
	if err != nil {
		return nil, err
	}
	if err := cluster.WaitReady(ctx, p, "http://"+health+"/readyz"); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// localArgs are the release's arguments with addresses replaced by local ones.
func (r *Release) localArgs(health string) []string {
	args := make([]string, len(r.Args))
	for i, arg := range r.Args {
		flag, _, _ := strings.Cut(arg, "=")
		var value string
		switch flag {
		case "--health-probe-bind-address":
			value = health
		case "--metrics-bind-address":
			value = "127.0.0.1:0"
		default:
			args[i] = arg
			continue
		}
		args[i] = flag + "=" + value
	}
	return args
}
