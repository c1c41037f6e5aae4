package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

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
var packages = []string{"runc", "libseccomp2", "nftables", "libnftables1", "libnftnl11", "libmnl0", "libxtables12", "libjansson4", "busybox-static"}

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
	p.Runc = filepath.Join(debian, "usr", "sbin", "runc")
	p.folders = []string{p.CNI, filepath.Join(debian, "usr", "sbin")}
	p.libraries, _ = filepath.Glob(filepath.Join(debian, "usr", "lib", "*-linux-gnu*")) // the pattern is well-formed
	p.Busybox = filepath.Join(debian, "busybox.tar")
	return p, busyboxImage(filepath.Join(debian, "bin", "busybox"), p.Busybox)
}

// environment is what the programs of a node need in theirs.
func (p *Programs) environment() []string {
	return []string{
		"PATH=" + strings.Join(append(p.folders, os.Getenv("PATH")), ":"),
		"LD_LIBRARY_PATH=" + strings.Join(p.libraries, ":"),
	}
}

// debianFiles takes the files of the packages into a folder, once, and returns it.
func debianFiles(ctx context.Context, out io.Writer) (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "build", "debian")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fmt.Fprintf(out, "packages of Debian: %s\n", strings.Join(packages, ", "))
	part := dir + ".part"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(part, 0o755)); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	script := `apt-get download "$@" || { apt-get update && apt-get download "$@"; }; for file in *.deb; do dpkg-deb --extract "$file" . && rm "$file"; done`
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-euc", script, "packages"}, packages...)...)
	cmd.Dir = part
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("packages of Debian: %w: %s", err, text)
	}
	if err := os.Rename(part, dir); err != nil {
		return "", fmt.Errorf("packages of Debian: %w", err)
	}
	return dir, nil
}
