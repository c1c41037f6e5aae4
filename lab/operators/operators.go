package operators

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/process"
)

// Operator is a controller of another project.
type Operator struct {
	// Name is that of its program, and of the folder below modules.
	Name string
	// Package is that of its main function.
	Package string
	// CRDs are files and folders with the kinds that it reads and writes.
	CRDs []File
	// Needs are other operators that it needs, which are installed before it.
	Needs []Operator
	// Start makes what its installation makes beside CRDs, starts it, and returns when it is ready.
	Start func(context.Context, *Installation) (*process.Process, error)
}

// File is a file or folder of a module that the operator's program is built from; without a module, of this package.
type File struct{ Module, Path string }

// Installation is an operator that is being installed in a cluster.
type Installation struct {
	*cluster.Cluster
	operator Operator
	program  string
}

// Build builds the operator's program, and those of the operators that it needs, where they are not built yet.
func (o Operator) Build(ctx context.Context, out io.Writer) error {
	for _, other := range o.Needs {
		if err := other.Build(ctx, out); err != nil {
			return err
		}
	}
	_, err := o.program(ctx, out)
	return err
}

// program builds the operator's program and returns its file.
func (o Operator) program(ctx context.Context, out io.Writer) (string, error) {
	return binaries.BuildOf(ctx, out, o.folder(), o.Package)
}

// Install builds an operator, installs it in a cluster after those that it needs, and starts it. It ends with the cluster.
func Install(ctx context.Context, c *cluster.Cluster, out io.Writer, o Operator) (*process.Process, error) {
	for _, other := range o.Needs {
		if _, err := Install(ctx, c, out, other); err != nil {
			return nil, err
		}
	}
	program, err := o.program(ctx, out)
	if err != nil {
		return nil, err
	}
	i := &Installation{Cluster: c, operator: o, program: program}
	for _, crd := range o.CRDs {
		path, err := i.path(ctx, crd)
		if err != nil {
			return nil, err
		}
		if err := c.ApplyCRDs(ctx, path); err != nil {
			return nil, err
		}
	}
	return o.Start(ctx, i)
}

// folder is where its versions are pinned, below lab.
func (o Operator) folder() string { return filepath.Join("operators", "modules", o.Name) }

// path is where a file of a module is.
func (i *Installation) path(ctx context.Context, file File) (string, error) {
	if file.Module == "" {
		root, err := binaries.Root()
		return filepath.Join(root, "lab", "operators", file.Path), err
	}
	dir, err := binaries.FilesOf(ctx, i.operator.folder(), file.Module)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.FromSlash(file.Path)), nil
}

// run starts the operator's program.
func (i *Installation) run(args ...string) (*process.Process, error) {
	return i.runAs(i.operator.Name, nil, args...)
}

// runAs starts the operator's program under a name, with variables in its environment. Its kubeconfig is there, too: for some
// that is before any flag, and an evaluator may have one there.
func (i *Installation) runAs(name string, variables []string, args ...string) (*process.Process, error) {
	if err := os.MkdirAll(i.temporary(), 0o700); err != nil {
		return nil, fmt.Errorf("temporary files of %s: %w", name, err)
	}
	own := []string{"KUBECONFIG=" + i.Kubeconfig(), "TMPDIR=" + i.temporary()}
	return i.Run(name, "env", slices.Concat(own, variables, []string{i.program}, args)...)
}

// temporary is the folder for the operator's temporary files.
func (i *Installation) temporary() string {
	return filepath.Join(i.Dir(), "temporary", i.operator.Name)
}

// Volcano is the name of the scheduler for which operators write groups of Volcano's kind; for others, those of
// scheduler-plugins.
const Volcano = "volcano"

// groups are the kinds PodGroup that an operator writes for a scheduler: none where it is given no name of one.
func groups(scheduler string) []File {
	switch scheduler {
	case "":
		return nil
	case Volcano:
		return []File{{Path: "crds/volcano.yaml"}}
	}
	return []File{{"sigs.k8s.io/scheduler-plugins", "manifests/coscheduling/crd.yaml"}}
}

// Lock waits until no other process runs operators, and keeps others out until release is called or this process ends.
func Lock() (release func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "tutti-lab-operators.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock of operators: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock of operators: %w", err)
	}
	return func() { f.Close() }, nil
}
