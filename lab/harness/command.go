package harness

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// BuildCommand compiles kubectl tutti and returns the program's file.
func BuildCommand(ctx context.Context) (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "build", "bin", "kubectl-tutti")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/kubectl-tutti")
	build.Dir = root
	build.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	build.Cancel = func() error { return syscall.Kill(-build.Process.Pid, syscall.SIGKILL) }
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build kubectl tutti: %w:\n%s", err, text)
	}
	return path, nil
}

// RunCommand runs a program and returns what it printed; its errors are in the error.
func RunCommand(ctx context.Context, path string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %q: %w: %s", filepath.Base(path), args, err, errs.String())
	}
	return out.String(), nil
}
