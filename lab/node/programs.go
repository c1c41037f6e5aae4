package node

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// Programs are the files of what runs on a node.
type Programs struct {
	Kubelet, Proxy, Containerd, Ctr, Runc, DNS string
	// CNI is the folder with the plugins that connect pods.
	CNI string
	// Busybox is the archive of the image of that name.
	Busybox string
	// folders have programs that these run, and libraries their shared objects.
	folders, libraries []string
}

// Missing says what this machine lacks for real nodes, one thing in each entry; empty means nothing.
func Missing() []string {
	var missing []string
	if runtime.GOOS != "linux" {
		return []string{"Linux"}
	}
	if os.Getuid() != 0 {
		missing = append(missing, "root")
	}
	for _, program := range []string{"unshare", "nsenter", "mount", "ip", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, "the program "+program)
		}
	}
	if len(missing) == 0 {
		if text, err := exec.Command("unshare", namespaces("true")...).CombinedOutput(); err != nil {
			missing = append(missing, "namespaces of its own: "+strings.TrimSpace(string(text)))
		}
	}
	try := fmt.Sprintf("tutti-lab-try%d", os.Getpid())
	if err := errors.Join(makeGroup(try), removeGroups(context.Background(), try)); err != nil {
		missing = append(missing, err.Error())
	}
	if len(hierarchies()) == 0 {
		missing = append(missing, "control groups in "+groupRoot)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		missing = append(missing, "apt-get, for "+strings.Join(packages, ", "))
	}
	return missing
}

// packages are the packages of Debian that have what no Go module has, with their libraries. They are not installed: their files
// are taken out into a folder.
var packages = []string{"runc", "libseccomp2", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libxtables12", "libjansson4", "mmdebstrap"}

// modules is the folder of the modules that pin what nodes run.
const modules = "node/modules/"

// Build builds the programs of nodes for a Kubernetes version (the default, when empty) and takes those of Debian out of their
// packages, where that is not done yet, and says on out what it does.
func Build(ctx context.Context, kubernetes string, out io.Writer) (*Programs, error) {
	if missing := Missing(); len(missing) > 0 {
		return nil, fmt.Errorf("real nodes need %s", strings.Join(missing, ", "))
	}
	set, err := binaries.Ensure(ctx, kubernetes, out, binaries.Kubelet, binaries.Proxy)
	if err != nil {
		return nil, err
	}
	p := &Programs{Kubelet: set.Path(binaries.Kubelet), Proxy: set.Path(binaries.Proxy)}
	for _, pkg := range []string{
		"github.com/containerd/containerd/v2/cmd/containerd",
		"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
		"github.com/containerd/containerd/v2/cmd/ctr",
		"github.com/containernetworking/plugins/plugins/main/bridge",
		"github.com/containernetworking/plugins/plugins/main/loopback",
		"github.com/containernetworking/plugins/plugins/ipam/host-local",
	} {
		file, err := binaries.BuildOf(ctx, out, modules+"containerd", pkg, "-tags=no_btrfs,no_zfs,no_devmapper")
		if err != nil {
			return nil, err
		}
		p.CNI = filepath.Dir(file)
	}
	p.Containerd, p.Ctr = filepath.Join(p.CNI, "containerd"), filepath.Join(p.CNI, "ctr")
	if p.DNS, err = binaries.BuildOf(ctx, out, modules+"coredns", "github.com/tutti-sched/tutti/lab/node/modules/coredns"); err != nil {
		return nil, err
	}
	debian, err := debianFiles(ctx, out)
	if err != nil {
		return nil, err
	}
	usr := filepath.Join(debian, "programs", "usr")
	p.Runc, p.Busybox = filepath.Join(usr, "sbin", "runc"), filepath.Join(debian, "busybox.tar")
	p.folders = []string{p.CNI, filepath.Join(usr, "sbin")}
	p.libraries, _ = filepath.Glob(filepath.Join(usr, "lib", "*-linux-gnu*")) // the pattern is well-formed
	return p, nil
}

// environment is what the programs of a node need in theirs.
func (p *Programs) environment() []string {
	return []string{
		"PATH=" + strings.Join(append(p.folders, os.Getenv("PATH")), ":"),
		"LD_LIBRARY_PATH=" + strings.Join(p.libraries, ":"),
	}
}

// debianScript takes files out of packages of Debian.
//
//go:embed debian.sh
var debianScript string

// debianFiles runs debianScript in a folder, unless it has run there, and returns the folder.
func debianFiles(ctx context.Context, out io.Writer) (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "build", "debian")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	defer lock.Close()
	// A second process waits here until the first one has the files.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(out, "packages of Debian: %s\n", strings.Join(packages, ", "))
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", debianScript, "debian.sh"}, packages...)...)
	cmd.Dir = part
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("packages of Debian: %w: %s", err, text)
	}
	busybox := v1.Config{Cmd: []string{"sleep", "infinity"}, Env: []string{"PATH=/bin"}}
	if err := writeImage(filepath.Join(part, "busybox.tar"), Busybox, filepath.Join(part, "busybox.root.tar"), busybox); err != nil {
		return "", err
	}
	if err := os.Rename(part, dir); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	return dir, nil
}
