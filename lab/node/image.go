package node

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// Busybox is the name of an image with a shell and the usual small programs in /bin, which each node has. Without a command it
// sleeps: the containers that hold a pod's namespaces do nothing else.
const Busybox = "localhost/busybox:lab"

// writeImage writes the archive of an image whose files are those of a tar.
func writeImage(archive, reference, root string, config v1.Config) error {
	failed := func(err error) error { return fmt.Errorf("image %s: %w", reference, err) }
	layer, err := tarball.LayerFromFile(root, tarball.WithCompressionLevel(1))
	if err != nil {
		return failed(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return failed(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return failed(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return failed(err)
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return failed(err)
	}
	if err := tarball.WriteToFile(archive+".part", tag, image); err != nil {
		return failed(err)
	}
	return os.Rename(archive+".part", archive)
}

// Image is an image of packages of Debian, localhost/NAME:lab.
type Image struct {
	// Name is what it is called, without a registry and a tag.
	Name string
	// Suite is the release of Debian, such as bookworm.
	Suite string
	// Packages are Debian's, with what they depend on.
	Packages []string
	// Script runs as root in the image when the packages are installed.
	Script string
}

// OpenMPI has Open MPI, an SSH server and client as mpi-operator starts them, for the user mpiuser, and the program
// /home/mpiuser/pi, with which the ranks of a job compute pi together. Each rank prints its number and its host.
func OpenMPI() Image {
	return Image{
		Name: "openmpi", Suite: "bookworm", Script: openMPI,
		Packages: []string{"openmpi-bin", "openssh-server", "openssh-client", "python3-mpi4py", "python3-numpy"},
	}
}

//go:embed openmpi.sh
var openMPI string

// Torch has PyTorch and torchrun. The PyTorch of Debian's release before this one has a torchrun that its Python cannot run.
func Torch() Image {
	return Image{Name: "torch", Suite: "trixie", Script: torch, Packages: []string{"python3-torch"}}
}

//go:embed torch.sh
var torch string

// Reference is the image's name in a pod.
func (i Image) Reference() string { return "localhost/" + i.Name + ":lab" }

// Build makes the image, once, says on out what it does, and returns its archive.
func (i Image) Build(ctx context.Context, out io.Writer) (string, error) {
	programs, err := debianFiles(ctx, out)
	if err != nil {
		return "", err
	}
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(root, "build", "images", i.Name+".tar")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return "", fmt.Errorf("image %s: %w", i.Name, err)
	}
	begin := time.Now()
	fmt.Fprintf(out, "image %s: takes minutes; packages of Debian: %s\n", i.Name, strings.Join(i.Packages, ", "))
	files := archive + ".root.tar"
	defer os.Remove(files)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "programs", "usr", "bin", "mmdebstrap"),
		"--variant=minbase", "--include="+strings.Join(i.Packages, ","),
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		`--customize-hook=chroot "$1" bash -c "$SCRIPT"`, i.Suite, files)
	cmd.Env = append(os.Environ(), "SCRIPT="+i.Script)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("image %s: %w: %s", i.Name, err, text)
	}
	if err := writeImage(archive, i.Reference(), files, v1.Config{Cmd: []string{"bash"}}); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "image %s: done after %s\n", i.Name, time.Since(begin).Round(time.Second))
	return archive, nil
}
