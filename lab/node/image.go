package node

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Busybox is the name of an image with a shell and the usual small programs in /bin, which each node has. Without a command it
// sleeps: the containers that hold a pod's namespaces do nothing else.
const Busybox = "localhost/busybox:lab"

// busyboxImage writes the archive of that image, unless it is there.
func busyboxImage(path, archive string) error {
	const reference = Busybox
	if _, err := os.Stat(archive); err == nil {
		return nil
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	failed := errors.Join(
		w.WriteHeader(&tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}),
		w.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}),
		w.WriteHeader(&tar.Header{Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))}),
	)
	_, err = w.Write(program)
	failed = errors.Join(failed, err)
	for applet := range strings.FieldsSeq(string(applets)) {
		if applet != "busybox" {
			failed = errors.Join(failed, w.WriteHeader(&tar.Header{Name: "bin/" + applet, Typeflag: tar.TypeSymlink, Linkname: "busybox"}))
		}
	}
	if failed = errors.Join(failed, w.Close()); failed != nil {
		return fmt.Errorf("image %s: %w", reference, failed)
	}
	return writeImage(archive, reference, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Bytes())), nil }, v1.Config{Cmd: []string{"sleep", "infinity"}, Env: []string{"PATH=/bin"}})
}

// writeImage writes the archive of an image with one layer.
func writeImage(archive, reference string, layer tarball.Opener, config v1.Config) error {
	made, err := tarball.LayerFromOpener(layer, tarball.WithCompressedCaching)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	image, err := mutate.AppendLayers(empty.Image, made)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	tag, err := name.NewTag(reference)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	if err := tarball.WriteToFile(archive+".part", tag, image); err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	return os.Rename(archive+".part", archive)
}
