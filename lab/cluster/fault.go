package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// Crash ends a part of the control plane with SIGKILL: binaries.Etcd, binaries.APIServer or binaries.ControllerManager. What etcd
// has written is there when it is started again, as after the crash of a process; the crash of a machine is not played. Wait
// returns that it ended.
func (c *Cluster) Crash(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range slices.Backward(c.processes) {
		if p.Name() == name {
			p.Kill()
			c.processes = slices.Delete(c.processes, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("crash %s: it does not run", name)
}

// Revive starts a part again that Crash has ended, at its old address, and returns when it is ready.
func (c *Cluster) Revive(ctx context.Context, name string) error {
	for _, part := range []part{c.etcd(), c.apiServer(), c.controllerManager()} {
		if part.name == name {
			return c.run(ctx, part)
		}
	}
	return fmt.Errorf("revive %s: only %s, %s and %s can be", name, binaries.Etcd, binaries.APIServer, binaries.ControllerManager)
}
