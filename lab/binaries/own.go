package binaries

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

// The programs of this repository that Build builds.
const (
	TuttiScheduler = "tutti-scheduler"
	KubectlTutti   = "kubectl-tutti"
	Lab            = "lab"
	// HangingScheduler is a scheduler with a plugin that hangs.
	HangingScheduler = "hanging-scheduler"
	// SparkSubmit creates the pod of a driver, as Apache Spark's program of that name does.
	SparkSubmit = "spark-submit"
)

// Build compiles a program of this repository into build/bin, says on out what it does, and returns the program's file.
func Build(ctx context.Context, out io.Writer, name string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir, pkg := root, "./cmd/"+name
	switch name {
	case Lab:
		dir, pkg = filepath.Join(root, "lab"), "./tool"
	case HangingScheduler:
		dir, pkg = filepath.Join(root, "lab"), "./hang"
	case SparkSubmit:
		dir, pkg = filepath.Join(root, "lab"), "./operators/spark/spark-submit"
	}
	b := builder{root: root, out: out, dir: filepath.Join(root, "build", "bin")}
	target := filepath.Join(b.dir, name)
	release, err := b.lock()
	if err != nil {
		return "", err
	}
	defer release()
	if err := b.compile(ctx, name, dir, target, pkg); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return target, nil
}
