// Package image makes container images of this repository's programs without a container engine and without a base image:
// one static program each, on nothing. The result is one file that skopeo, podman, docker, containerd and kind read.
//
// It pushes nothing and pulls nothing, and knows nothing of clusters.
package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Spec says what is in an image.
type Spec struct {
	// Program is the name of the one program in it, which is also the entry point.
	Program string
	// User is who runs it, as UID:GID.
	User string
	// Reference is the image's name with its tag, such as tutti-scheduler:0.1.0.
	Reference string
	// Architecture is Go's word for it, such as amd64.
	Architecture string
	// Labels are the image's, such as org.opencontainers.image.version; nil means none.
	Labels map[string]string
}

// Specs are the images of this repository, in one version for one architecture. The agent runs as root, since the socket of the
// container runtime is root's alone.
func Specs(version, architecture string) []Spec {
	labels := map[string]string{
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.source":   "https://github.com/tutti-sched/tutti",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	return []Spec{
		{Program: "tutti-scheduler", User: "65532:65532", Reference: "tutti-scheduler:" + version, Architecture: architecture, Labels: labels},
		{Program: "tutti-agent", User: "0:0", Reference: "tutti-agent:" + version, Architecture: architecture, Labels: labels},
	}
}

// born is when every image and every file in it was made: always the same, so that the same program is the same image, byte for
// byte.
func born() time.Time { return time.Unix(0, 0).UTC() }

// Write writes the archive of an image with this program in it, for each spec, which differ in their architecture alone. The
// archive is an OCI image layout, with the one more file that older dockers look for if there is one architecture; they know no
// more. The same arguments write the same bytes.
func Write(archive io.Writer, specs []Spec, programs [][]byte) error {
	spec, made := specs[0], make([]v1.Image, len(specs))
	for i := range specs {
		var err error
		if made[i], err = build(specs[i], programs[i]); err != nil {
			return fmt.Errorf("image %s: %w", spec.Reference, err)
		}
	}
	dir, err := os.MkdirTemp("", "tutti-image-")
	if err != nil {
		return fmt.Errorf("folder of the image: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := writeLayout(dir, specs, made); err != nil {
		return fmt.Errorf("image %s: %w", spec.Reference, err)
	}
	if err := pack(archive, dir); err != nil {
		return fmt.Errorf("archive of image %s: %w", spec.Reference, err)
	}
	return nil
}

// build makes the image in memory.
func build(spec Spec, program []byte) (v1.Image, error) {
	files, err := oneFile(spec.Program, program)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching,
	)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	filled, err := mutate.Append(base, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: born()}, CreatedBy: "make image", Comment: spec.Program},
	})
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	config, err := filled.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = spec.Architecture, "linux", v1.Time{Time: born()}
	config.Config = v1.Config{User: spec.User, Entrypoint: []string{"/" + spec.Program}, WorkingDir: "/", Labels: spec.Labels}
	made, err := mutate.ConfigFile(filled, config)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return made, nil
}

// oneFile is a tar with the program and nothing else.
func oneFile(name string, program []byte) ([]byte, error) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	header := &tar.Header{Name: name, Mode: 0o555, Size: int64(len(program)), ModTime: born(), Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("file %s: %w", name, err)
	}
	_, err := w.Write(program)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("file %s: %w", name, err)
	}
	return text.Bytes(), nil
}

// writeLayout writes the images into a folder, as OCI lays them out: several as an index, which has the name.
func writeLayout(dir string, specs []Spec, made []v1.Image) error {
	spec := specs[0]
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	// Containerd takes the first for the image's name, others the tag from the second.
	tag := spec.Reference[strings.LastIndexAny(spec.Reference, "/:")+1:]
	names := map[string]string{"io.containerd.image.name": fullName(spec.Reference), "org.opencontainers.image.ref.name": tag}
	if len(made) == 1 {
		if err := path.AppendImage(made[0], layout.WithAnnotations(names), layout.WithPlatform(platform(spec))); err != nil {
			return fmt.Errorf("layout: %w", err)
		}
		return writeDockerManifest(dir, spec, made[0])
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for i := range made {
		on := platform(specs[i])
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made[i], Descriptor: v1.Descriptor{Platform: &on}})
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	return nil
}

func platform(spec Spec) v1.Platform {
	return v1.Platform{OS: "linux", Architecture: spec.Architecture}
}

// fullName adds what a name without a registry means to container engines.
func fullName(reference string) string {
	first, _, more := strings.Cut(reference, "/")
	switch {
	case !more:
		return "docker.io/library/" + reference
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return "docker.io/" + reference
	}
	return reference
}

// dockerManifest is an entry of the file manifest.json.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// writeDockerManifest writes the file by which docker finds an image in an archive when it does not read OCI layouts.
func writeDockerManifest(dir string, spec Spec, made v1.Image) error {
	manifest, err := made.Manifest()
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	entry := dockerManifest{Config: blob(manifest.Config.Digest), RepoTags: []string{spec.Reference}}
	for _, layer := range manifest.Layers {
		entry.Layers = append(entry.Layers, blob(layer.Digest))
	}
	text, err := json.Marshal([]dockerManifest{entry})
	if err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644)
}

// blob is where a layout keeps what has this digest.
func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// pack writes the files below a folder as a tar, sorted, with nothing of this machine in it.
func pack(archive io.Writer, dir string) error {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	// oci-layout and index.json first: a program that reads a stream then knows immediately what it is.
	slices.SortFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), -cmp.Compare(filepath.Base(a), filepath.Base(b)))
	})
	w := tar.NewWriter(archive)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		header := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(text)), ModTime: born(), Format: tar.FormatPAX}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return w.Close()
}
