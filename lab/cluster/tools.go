package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// ApplyCRDs creates or updates the CustomResourceDefinitions in a folder and returns when the server serves them.
func (c *Cluster) ApplyCRDs(ctx context.Context, dir string) error {
	_, err := envtest.InstallCRDs(c.Config(), envtest.CRDInstallOptions{
		Paths: []string{dir}, ErrorIfPathMissing: true,
		MaxTime: Patience, PollInterval: 50 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("custom resources in %s: %w", dir, err)
	}
	if err := c.AwaitKinds(ctx); err != nil {
		return fmt.Errorf("custom resources in %s: %w", dir, err)
	}
	return nil
}

// AwaitKinds returns when all CustomResourceDefinitions are established, or Patience is over. kubectl fails over one
// that has no conditions yet.
func (c *Cluster) AwaitKinds(ctx context.Context) (err error) {
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, Patience, true, func(ctx context.Context) (bool, error) {
		_, err = c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
		return err == nil, nil
	})
	return err
}

// Kubectl runs kubectl as the administrator and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, binaries.Kubectl, args)
}

// Helm runs helm as the administrator, building it first where it is missing, and returns what it printed.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	return c.tool(ctx, binaries.Helm, args)
}

// tool runs a command-line tool of the lab, building it first where it is missing.
func (c *Cluster) tool(ctx context.Context, name string, args []string) (string, error) {
	path := c.programs.Path(name)
	if path == "" {
		extra, err := binaries.Ensure(ctx, c.programs.Kubernetes, c.options.Out, name)
		if err != nil {
			return "", err
		}
		path = extra.Path(name)
	}
	return c.RunTool(ctx, path, args...)
}

// RunTool runs a command-line tool as the administrator, with a home of its own, and returns what it printed.
func (c *Cluster) RunTool(ctx context.Context, path string, args ...string) (string, error) {
	home := filepath.Join(c.scratch.dir, "home")
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "HOME="+home,
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	// As in lab/process: the tool ends with the thread that started it, so that thread waits for it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}
