package harness

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

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
