// Package program compiles the programs of this repository as they are released: static, without this machine's paths, and the
// same bytes from the same source and the same Go. It also says which modules are linked into one, and under which licences.
package program

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// The programs of this repository that are released.
const (
	Scheduler = "tutti-scheduler"
	Agent     = "tutti-agent"
	Plugin    = "kubectl-tutti"
)

// Target is what a program is compiled for, in Go's words, such as linux and arm64.
type Target struct{ OS, Arch string }

// String returns OS/Arch, as container images write it.
func (t Target) String() string { return t.OS + "/" + t.Arch }

// command returns a Go command in the root module, whose result depends on the source and the target alone.
func (t Target) command(ctx context.Context, root string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+t.OS, "GOARCH="+t.Arch, "GOFLAGS=", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0")
	return cmd
}

// Compile returns a program of the repository at root. Where this machine can run it, it has shown its help.
func Compile(ctx context.Context, root, name string, on Target) ([]byte, error) {
	dir, err := os.MkdirTemp("", "tutti-program-")
	if err != nil {
		return nil, fmt.Errorf("folder of programs: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, name)
	cmd := on.command(ctx, root, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, "./cmd/"+name)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s for %s: %w:\n%s", name, on, err, text)
	}
	if on == (Target{runtime.GOOS, runtime.GOARCH}) {
		if err := helps(ctx, path); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// helps is nil when the program starts, in its folder and with no environment, and explains itself.
func helps(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, path, "--help")
	cmd.Dir, cmd.Env = filepath.Dir(path), []string{}
	if text, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(text, []byte("Usage:")) {
		return fmt.Errorf("%s --help: %w: %s", filepath.Base(path), err, text)
	}
	return nil
}

// IsStatic is nil when a program of Linux needs nothing but the kernel: an empty image has no loader and no libraries.
func IsStatic(text []byte) error {
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("no program of Linux: %w", err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("it is linked with libraries, which the image does not have")
		}
	}
	return nil
}
