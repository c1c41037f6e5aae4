// Package binaries builds the programs of a real control plane from their Go modules: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl, kwok and helm. Only what is asked for is built, once per
// Kubernetes version, into build/bin/<version>/ at the root of the repository. It also builds the programs of this repository.
//
// The versions are pinned by lab/go.mod, and are those of the root module where both have one; all programs are built with the
// same flags. So a package that several of them import is compiled once. Programs found in the folder KUBEBUILDER_ASSETS are
// taken as they are. The package starts nothing; lab/cluster does.
//
// Invariant: it imports the standard library alone, since lab/cmd/lab must compile in seconds.
package binaries

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The programs this package can build.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	Proxy             = "kube-proxy"
	Kubectl           = "kubectl"
	Kwok              = "kwok"
	Helm              = "helm"
)

// DefaultKubernetes is the version that lab/go.mod pins: the one used when none is asked for.
const DefaultKubernetes = "1.37.1"

// AssetsEnv names the environment variable that points at a folder of prebuilt programs.
const AssetsEnv = "KUBEBUILDER_ASSETS"

// buildSpec says where a program comes from.
type buildSpec struct {
	name   string
	pkg    string // the package of its main function
	module string // the module that holds it
}

const kubernetes = "k8s.io/kubernetes"

func recipes() []buildSpec {
	return []buildSpec{
		{Etcd, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"},
		{APIServer, kubernetes + "/cmd/kube-apiserver", kubernetes},
		{ControllerManager, kubernetes + "/cmd/kube-controller-manager", kubernetes},
		{Scheduler, kubernetes + "/cmd/kube-scheduler", kubernetes},
		{Kubelet, kubernetes + "/cmd/kubelet", kubernetes},
		{Proxy, kubernetes + "/cmd/kube-proxy", kubernetes},
		{Kubectl, kubernetes + "/cmd/kubectl", kubernetes},
		{Kwok, "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok"},
		{Helm, "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4"},
	}
}

// Names lists all programs in the order they are built.
func Names() []string {
	var names []string
	for _, r := range recipes() {
		names = append(names, r.name)
	}
	return names
}

// Set is where the asked programs are.
type Set struct {
	// Kubernetes is their version, without a v.
	Kubernetes string
	paths      map[string]string
}

// Path is the file of a program, or empty if it was not asked for.
func (s *Set) Path(name string) string { return s.paths[name] }

// Ensure makes sure that the named programs (all, when none is named) exist for a Kubernetes version (the default,
// when empty), and says on out what it does. Two processes may call it at the same time: the second waits for the first.
func Ensure(ctx context.Context, version string, out io.Writer, names ...string) (*Set, error) {
	wanted, err := pick(names)
	if err != nil {
		return nil, err
	}
	root, err := Root()
	if err != nil {
		return nil, err
	}
	version = cmp.Or(strings.TrimPrefix(version, "v"), DefaultKubernetes)
	b := builder{root: root, kubernetes: version, out: out, dir: filepath.Join(root, "build", "bin", version)}
	release, err := b.lock()
	if err != nil {
		return nil, err
	}
	defer release()

	set := &Set{Kubernetes: version, paths: map[string]string{}}
	var missing []buildSpec
	for _, r := range wanted {
		path, err := b.find(ctx, r)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", r.name, err)
		}
		if path == "" {
			missing = append(missing, r)
			path = filepath.Join(b.dir, r.name)
		}
		set.paths[r.name] = path
	}
	for i, r := range missing {
		if err := b.build(ctx, r, fmt.Sprintf("[%d/%d] %s", i+1, len(missing), r.name)); err != nil {
			return nil, fmt.Errorf("build %s for Kubernetes %s: %w", r.name, version, err)
		}
	}
	return set, nil
}

// pick turns names into recipes, in building order.
func pick(names []string) ([]buildSpec, error) {
	all := recipes()
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("program %q is not known; there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return slices.DeleteFunc(all, func(r buildSpec) bool { return !slices.Contains(names, r.name) }), nil
}

// Root is the top folder of the repository, found upwards from the working directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	for {
		mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(mod, []byte("module github.com/tutti-sched/tutti\n")) {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the root of the repository is not above the working directory")
		}
		dir = parent
	}
}

// builder is one call of Ensure or Build.
type builder struct {
	root       string
	kubernetes string
	dir        string
	out        io.Writer
}

// lock keeps other processes out of the version's folder until release is called, or this process ends.
func (b *builder) lock() (release func(), err error) {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of programs: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(b.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock of programs: %w", err)
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		return func() { f.Close() }, nil
	}
	fmt.Fprintf(b.out, "another process builds in %s; waiting for it\n", b.dir)
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock of programs: %w", err)
	}
	return func() { f.Close() }, nil
}

// find returns the file of a program that need not be built, or empty.
func (b *builder) find(ctx context.Context, r buildSpec) (string, error) {
	if assets := os.Getenv(AssetsEnv); assets != "" {
		path := filepath.Join(assets, r.name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path := filepath.Join(b.dir, r.name)
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", nil // not there, or only half of it
	}
	version, err := b.version(ctx, r)
	if err != nil {
		return "", err
	}
	if info.Main.Path != r.module || info.Main.Version != version {
		return "", nil
	}
	return path, nil
}

// version is the version of the program's module that is wanted, with its v.
func (b *builder) version(ctx context.Context, r buildSpec) (string, error) {
	if r.module == kubernetes {
		return "v" + b.kubernetes, nil
	}
	out, err := goCommand(ctx, filepath.Join(b.root, "lab"), "list", "-m", "-f", "{{.Version}}", r.module).Output()
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", r.module, withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// build compiles one program of the control plane beside its place first, so that what is found there is always whole.
func (b *builder) build(ctx context.Context, r buildSpec, label string) error {
	dir := filepath.Join(b.root, "lab")
	if r.module == kubernetes && b.kubernetes != DefaultKubernetes {
		generated, err := b.generateModule(ctx, label)
		if err != nil {
			return err
		}
		dir = generated
	}
	target := filepath.Join(b.dir, r.name)
	if err := b.compile(ctx, label, dir, target+".part", r.pkg, "-mod=readonly", "-ldflags="+b.linkerFlags()); err != nil {
		return err
	}
	if err := os.Rename(target+".part", target); err != nil {
		return fmt.Errorf("put %s in place: %w", r.name, err)
	}
	return nil
}

// compile compiles a program into a file. It does not link again what is in that file already.
func (b *builder) compile(ctx context.Context, label, dir, file, pkg string, flags ...string) error {
	start := time.Now()
	fmt.Fprintf(b.out, "%s: compiling %s\n", label, pkg)
	args := append([]string{"build", "-v", "-trimpath", "-o", file}, flags...)
	if err := watch(goCommand(ctx, dir, append(args, pkg)...), b.out, label, "compiling"); err != nil {
		return err
	}
	fmt.Fprintf(b.out, "%s: done after %s\n", label, time.Since(start).Round(time.Second))
	return nil
}

// goCommand is the go tool, run in a module. Without cgo, as in every other build of the repository but those with the race
// detector: a package that imports net is another one with it.
func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "PWD="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// linkerFlags give the programs the version they are: built from a module they would call themselves v0.0.0-master,
// which kubectl, helm and version checks trip over.
func (b *builder) linkerFlags() string {
	part := strings.SplitN(b.kubernetes, ".", 3)
	part = append(part, "", "")
	values := []string{
		"gitVersion=v" + b.kubernetes, "gitMajor=" + part[0], "gitMinor=" + part[1], "gitCommit=v" + b.kubernetes,
		"gitTreeState=archive", "buildDate=1970-01-01T00:00:00Z",
	}
	flags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range values {
			flags = append(flags, "-X", pkg+"."+value)
		}
	}
	return strings.Join(flags, " ")
}

// withStderr adds what a command printed to its error.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}
