package release

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
)

// IsolatedNode is the real node with the agent of isolated CPUs.
const IsolatedNode = "real-2"

// InstallOnNodes installs the chart in a cluster with real nodes as its install page says, with the images of `make image`, which
// are imported on each node: two replicas of the scheduler, and the agent on IsolatedNode, where it isolates these CPUs, a list
// such as 1-3. It says on out what it does.
func InstallOnNodes(ctx context.Context, c *cluster.Cluster, isolated string, out io.Writer) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "make", "--no-print-directory", "image")
	build.Dir, build.Stdout, build.Stderr = root, out, out
	if err := build.Run(); err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	for _, program := range []string{Deployment, DaemonSet} {
		archive := filepath.Join(root, "build", "images", program+"-"+runtime.GOARCH+".tar")
		if err := c.Import(ctx, archive); err != nil {
			return err
		}
	}
	if _, err := c.Kubectl(ctx, "label", "node", IsolatedNode, "isolcpu.tutti.dev/agent=true"); err != nil {
		return err
	}
	chart, err := Chart()
	if err != nil {
		return err
	}
	return Install(ctx, c, chart, "--set", "global.imageRegistry=localhost", "--set", "isolcpu.enabled=true",
		"--set", "isolcpu.agent.extraArgs={--isolated-override="+isolated+"}", "--set", "isolcpu.agent.mode=included",
		"--set", "isolcpu.agent.cgroupRoot=/sys/fs/cgroup")
}
