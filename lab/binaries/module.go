package binaries

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// BuildOf compiles a program of another project into a folder of build/bin/of, says on out what it does, and returns the
// program's file. The folder given holds a module that pins the program's versions; it is a path below lab. Flags are more of go
// build's.
func BuildOf(ctx context.Context, out io.Writer, folder, pkg string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := filepath.Base(folder)
	b := builder{root: root, out: out, dir: filepath.Join(root, "build", "bin", "of", name)}
	release, err := b.lock()
	if err != nil {
		return "", err
	}
	defer release()
	target := filepath.Join(b.dir, path.Base(pkg))
	flags = append(flags, "-mod=readonly", "-ldflags=-s -w")
	if err := b.compile(ctx, name, filepath.Join(root, "lab", folder), target, pkg, flags...); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return target, nil
}

// FilesOf returns the folder with the files of a module, in the version that the module in a folder below lab has of it.
func FilesOf(ctx context.Context, folder, module string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out, err := goCommand(ctx, filepath.Join(root, "lab", folder), "mod", "download", "-json", module).Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Error != "" {
		return "", fmt.Errorf("files of %s: %s", module, strings.TrimSpace(answer.Error))
	}
	if err != nil {
		return "", fmt.Errorf("files of %s: %w", module, withStderr(err))
	}
	return answer.Dir, nil
}
