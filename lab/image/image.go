// Package image makes container images of this repository's programs without a container engine and without a base image: one
// static program each, the licences of what is linked into it, and nothing more. They are kept in an OCI image layout, which
// skopeo, podman, docker, containerd and kind read as one file.
//
// It pushes nothing and pulls nothing, and knows nothing of clusters.
package image

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/tutti-sched/tutti/lab/archive"
	"github.com/tutti-sched/tutti/lab/program"
)

// Users returns who runs the program of each image, as UID:GID. The agent runs as root, since the socket of the container runtime
// is root's alone.
func Users() map[string]string {
	return map[string]string{program.Scheduler: "65532:65532", program.Agent: "0:0"}
}

// Build compiles a program of the repository at root, and returns its image for Linux on one architecture.
func Build(ctx context.Context, root string, of Source, name, architecture string) (v1.Image, error) {
	on := program.Target{OS: "linux", Arch: architecture}
	text, err := program.Compile(ctx, root, name, on)
	if err != nil {
		return nil, err
	}
	linked, err := program.Linked(ctx, root, name, on)
	if err != nil {
		return nil, err
	}
	return New(of, name, architecture, text, linked)
}

// New returns the image of a program whose text, and whose linked modules, are at hand.
func New(of Source, name, architecture string, text []byte, linked []program.Module) (v1.Image, error) {
	if err := program.IsStatic(text); err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	files := []archive.File{{Name: name, Mode: 0o555, Text: text}}
	files = append(files, program.Licences(linked)...)
	var plain bytes.Buffer
	if err := archive.Tar(&plain, of.At, files); err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	made, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: of.At}, CreatedBy: "make image", Comment: name}})
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image of %s: %w", name, err)
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = architecture, "linux", v1.Time{Time: of.At}
	config.Config = v1.Config{User: Users()[name], Entrypoint: []string{"/" + name}, WorkingDir: "/", Labels: of.Labels(name)}
	return mutate.ConfigFile(made, config)
}

// Index returns one name for images of the same program that differ in their architecture.
func Index(of Source, name string, images []v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, made := range images {
		config, err := made.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("image of %s: %w", name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: made, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	return mutate.Annotations(index, of.Labels(name)).(v1.ImageIndex), nil
}

// Archive writes one file with the images, which have a name such as localhost/tutti-scheduler:0.1.0. Several are an index. A
// single one has also the file by which an older docker finds it. What was written is read again: each blob must be what its
// digest says.
func Archive(to io.Writer, of Source, reference string, images []v1.Image) error {
	dir, err := os.MkdirTemp("", "tutti-image-")
	if err != nil {
		return fmt.Errorf("folder of image %s: %w", reference, err)
	}
	defer os.RemoveAll(dir)
	if err := write(dir, of, reference, images); err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	files, err := archive.Folder(dir)
	if err != nil {
		return fmt.Errorf("image %s: %w", reference, err)
	}
	return archive.Tar(to, of.At, files)
}

func write(dir string, of Source, reference string, images []v1.Image) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// Containerd takes the first for the image's name, and other programs take the tag from the second.
	full := strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	names := layout.WithAnnotations(map[string]string{"io.containerd.image.name": full, "org.opencontainers.image.ref.name": tag.TagStr()})
	if len(images) == 1 {
		config, err := images[0].ConfigFile()
		if err != nil {
			return err
		}
		if err := path.AppendImage(images[0], names, layout.WithPlatform(*config.Platform())); err != nil {
			return err
		}
		if err := writeDocker(dir, reference, images[0]); err != nil {
			return err
		}
	} else {
		index, err := Index(of, tag.RepositoryStr(), images)
		if err != nil {
			return err
		}
		if err := path.AppendIndex(index, names); err != nil {
			return err
		}
	}
	written, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	return validate.Index(written)
}

// writeDocker writes the file manifest.json.
func writeDocker(dir, reference string, made v1.Image) error {
	manifest, err := made.Manifest()
	if err != nil {
		return err
	}
	blob := func(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
	text, err := json.Marshal([]tarball.Descriptor{{
		Config: blob(manifest.Config.Digest), RepoTags: []string{reference}, Layers: []string{blob(manifest.Layers[0].Digest)},
	}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), text, 0o644)
}
