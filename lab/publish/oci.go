package publish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tutti-sched/tutti/lab/image"
)

// charts is the path of charts below the registry.
const charts = "charts"

// Artefact is what a registry has under one name.
type Artefact struct {
	// Name is its path below the registry with its tag, such as charts/tutti:0.1.0.
	Name   string
	Digest v1.Hash
	// index reports whether it is an index of images for several architectures.
	index bool
}

// pinned returns its name in a registry, by digest.
func (a Artefact) pinned(registry string) string {
	path, _, _ := strings.Cut(a.Name, ":")
	return registry + "/" + path + "@" + a.Digest.String()
}

// named is the annotation by which a layout knows the name of an artefact.
func named(to string) layout.Option {
	return layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": to})
}

// images writes the images of all programs, each as an index.
func (r *Release) images(ctx context.Context) error {
	path, err := layout.Write(filepath.Join(r.Out, layoutFolder), empty.Index)
	if err != nil {
		return err
	}
	for _, program := range slices.Sorted(maps.Keys(image.Users())) {
		var all []v1.Image
		for _, architecture := range r.Architectures {
			made, err := image.Build(ctx, r.Root, r.Of, program, architecture)
			if err != nil {
				return err
			}
			all = append(all, made)
		}
		index, err := image.Index(r.Of, program, all)
		if err != nil {
			return err
		}
		if err := path.AppendIndex(index, named(program+":"+r.Of.Version)); err != nil {
			return err
		}
	}
	return nil
}

// chart packs the chart, with the registry as that of its images where it is set, and writes it as what helm pushes, and beside
// it what Artifact Hub reads of the registry.
func (r *Release) chart(ctx context.Context) error {
	home, err := os.MkdirTemp("", "tutti-chart-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	folder := filepath.Join(home, "tutti")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(r.Root, "charts/tutti"))); err != nil {
		return err
	}
	if of := r.Variables.values[Registry]; of != "" {
		if err := setRegistry(filepath.Join(folder, "values.yaml"), of); err != nil {
			return err
		}
	}
	if err := r.helm(ctx, home, "package", folder, "--version", r.Of.Version, "--app-version", r.Of.Version, "--destination", r.Out); err != nil {
		return err
	}
	file := filepath.Join(r.Out, "tutti-"+r.Of.Version+".tgz")
	if err := os.Chtimes(file, r.Of.At, r.Of.At); err != nil { // helm writes it into the artefact
		return err
	}
	server := Serve()
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	if err := r.helm(ctx, home, "push", file, "oci://"+host+"/"+charts, "--plain-http"); err != nil {
		return err
	}
	reference, err := name.ParseReference(host + "/" + charts + "/tutti:" + r.Of.Version)
	if err != nil {
		return err
	}
	made, err := remote.Image(reference, remote.WithContext(ctx))
	if err != nil {
		return err
	}
	hub, err := r.hub()
	if err != nil {
		return err
	}
	path, err := layout.FromPath(filepath.Join(r.Out, layoutFolder))
	if err != nil {
		return err
	}
	return errors.Join(
		path.AppendImage(made, named(charts+"/tutti:"+r.Of.Version)),
		path.AppendImage(hub, named(charts+"/tutti:artifacthub.io")),
	)
}

// Serve serves an empty registry on this machine, until it is closed.
func Serve() *httptest.Server {
	return httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
}

// setRegistry makes a registry the default of both images in the chart's values.
func setRegistry(file, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const unset = ` registry: ""`
	if n := bytes.Count(text, []byte(unset)); n != 2 {
		return fmt.Errorf("values.yaml has %d registries that are not set, not those of two images", n)
	}
	return os.WriteFile(file, bytes.ReplaceAll(text, []byte(unset), fmt.Appendf(nil, " registry: %q", to)), 0o644)
}

// helm runs helm with a home of its own.
func (r *Release) helm(ctx context.Context, home string, args ...string) error {
	cmd := exec.CommandContext(ctx, r.Helm, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.Of.At.Unix()),
		"HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w: %s", args[0], err, text)
	}
	return nil
}

// hub returns what says to Artifact Hub whose registry it is (artifacthub.io/docs/topics/repositories).
func (r *Release) hub() (v1.Image, error) {
	text, err := r.Variables.fill(filepath.Join(r.Root, "hack/release/artifacthub-repo.yml"), nil)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), "application/vnd.cncf.artifacthub.config.v1+yaml")
	return mutate.AppendLayers(base, static.NewLayer(text, "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml"))
}

// Artefacts returns what the layout of the release has.
func (r *Release) Artefacts() (all []Artefact, err error) {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.Out, layoutFolder))
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, at := range manifest.Manifests {
		all = append(all, Artefact{Name: at.Annotations["org.opencontainers.image.ref.name"], Digest: at.Digest, index: at.MediaType.IsIndex()})
	}
	return all, nil
}

// Push pushes what the layout has to the registry. A version is pushed once: where the registry has another artefact of that
// name, it fails, and nothing of the release is pushed.
func (r *Release) Push(ctx context.Context) error {
	index, err := layout.ImageIndexFromPath(filepath.Join(r.Out, layoutFolder))
	if err != nil {
		return err
	}
	artefacts, err := r.Artefacts()
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	tags := make([]name.Tag, len(artefacts))
	for i, artefact := range artefacts {
		if tags[i], err = name.NewTag(r.Variables.Get(Registry) + "/" + artefact.Name); err != nil {
			return err
		}
		there, err := remote.Head(tags[i], options...)
		var answer *transport.Error
		switch {
		case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		case err != nil:
			return fmt.Errorf("registry: %w", err)
		case there.Digest != artefact.Digest && tags[i].TagStr() == r.Of.Version:
			return fmt.Errorf("registry: %s is there already, and is another one: %s, not %s", tags[i], there.Digest, artefact.Digest)
		}
	}
	for i, artefact := range artefacts {
		var push remote.Taggable
		if artefact.index {
			push, err = index.ImageIndex(artefact.Digest)
		} else {
			push, err = index.Image(artefact.Digest)
		}
		if err == nil {
			err = remote.Push(tags[i], push, options...)
		}
		if err != nil {
			return fmt.Errorf("push of %s: %w", tags[i], err)
		}
		fmt.Fprintf(r.Progress, "release: pushed %s\n", artefact.pinned(r.Variables.Get(Registry)))
	}
	return nil
}
