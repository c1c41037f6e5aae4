package publish

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/image"
)

const changelog = `# Changelog

## [Unreleased]

- nothing

## [0.2.0] - 2026-12-24

### Added

- slices

## [0.1.0] - UNRELEASED

- gangs

## [0.0.9] - 2026-01-01
`

// file writes a file, and returns its name.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSection(t *testing.T) {
	path := file(t, "CHANGELOG.md", changelog)
	for version, want := range map[string][2]string{
		"0.2.0": {"### Added\n\n- slices\n", "2026-12-24"}, "0.1.0": {"- gangs\n", "UNRELEASED"},
	} {
		if text, date, err := Section(path, version); err != nil || text != want[0] || date != want[1] {
			t.Errorf("%s: %q of %q, %v", version, text, date, err)
		}
	}
	for version, want := range map[string]string{
		"0.0.9": `says nothing below "## [0.0.9]"`, "0.1": `has no heading "## [0.1] - DATE"`, "0.3.0": "CHANGELOG.md has no heading",
	} {
		if _, _, err := Section(path, version); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q in it", version, err, want)
		}
	}
}

// TestVariables: the environment comes before release.env, which sets what release.env.example names and nothing else.
func TestVariables(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("release.env.example", "# where\nREGISTRY=\n\nREPOSITORY=\nBUILDER=\n")
	for _, name := range []string{Registry, repository, builder} {
		t.Setenv(name, "")
	}
	v, err := ReadVariables(dir)
	if err != nil || !slices.Equal(v.Unset(), []string{Registry, repository, builder}) || v.Get(Registry) != "${REGISTRY}" {
		t.Errorf("none is set: %q, %v", v.Unset(), err)
	}
	write("release.env", "REGISTRY=of the file\nBUILDER=of the file\n")
	t.Setenv(builder, "of the environment")
	v, err = ReadVariables(dir)
	if err != nil || !slices.Equal(v.Unset(), []string{repository}) || v.Get(Registry) != "of the file" || v.Get(builder) != "of the environment" {
		t.Errorf("two are set: %+v, %v", v, err)
	}
	write("release.env", "REGISTRI=x\n")
	if _, err = ReadVariables(dir); err == nil || !strings.Contains(err.Error(), `"REGISTRI=x" sets no variable`) {
		t.Errorf("an unknown one: %v", err)
	}
}

// TestReady names all that is missing at once.
func TestReady(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	variables, err := ReadVariables(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", t.TempDir())
	r := &Release{Changelog: file(t, "CHANGELOG.md", changelog), Of: image.Source{Version: "0.1.0", Commit: "0123+"}, Variables: variables}
	text := r.Ready().Error()
	for _, want := range append(variables.Unset(), `"UNRELEASED" is no date of version 0.1.0`, "files differ from the commit", "cosign is not installed", "gh is not installed") {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nwant %q in it", text, want)
		}
	}
	bin := t.TempDir()
	for _, name := range []string{"cosign", "gh"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	r.Of = image.Source{Version: "0.2.0", Commit: "0123"}
	for _, name := range variables.Unset() {
		r.Variables = r.Variables.With(name, "set")
	}
	if err := r.Ready(); err != nil {
		t.Errorf("nothing is missing: %v", err)
	}
}

// TestChartHasTheRegistryOfItsImages, and fails when the values have another shape.
func TestChartHasTheRegistryOfItsImages(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	values, err := os.ReadFile(filepath.Join(root, "charts/tutti/values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, "values.yaml", string(values))
	if err := setRegistry(path, "registry.invalid/batch"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if n := strings.Count(string(text), "\n  registry: \"registry.invalid/batch\"\n") + strings.Count(string(text), "\n      registry: \"registry.invalid/batch\"\n"); err != nil || n != 2 {
		t.Errorf("%d registries are set, want 2", n)
	}
	if err := setRegistry(path, "registry.invalid"); err == nil {
		t.Error("values without a registry that is not set pass")
	}
}

// TestAVersionIsPushedOnce: what a registry has of a version stays as it is.
func TestAVersionIsPushedOnce(t *testing.T) {
	server := Serve()
	t.Cleanup(server.Close)
	r := &Release{Of: image.Source{Version: "0.1.0"}, Progress: t.Output(),
		Variables: Variables{values: map[string]string{Registry: strings.TrimPrefix(server.URL, "http://") + "/batch"}}}
	laidOut := func(names ...string) {
		t.Helper()
		r.Out = t.TempDir()
		path, err := layout.Write(filepath.Join(r.Out, layoutFolder), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range names {
			made, err := random.Image(100, 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := path.AppendImage(made, named(to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	laidOut("first:0.1.0", "first:artifacthub.io")
	for range 2 {
		if err := r.Push(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	laidOut("second:0.1.0", "first:0.1.0")
	if err := r.Push(t.Context()); err == nil || !strings.Contains(err.Error(), "first:0.1.0 is there already, and is another one") {
		t.Errorf("another artefact of the same version: %v", err)
	}
	if second, err := name.ParseReference(r.Variables.Get(Registry) + "/second:0.1.0"); err != nil {
		t.Fatal(err)
	} else if _, err := remote.Head(second); err == nil {
		t.Error("a part of the release is pushed")
	}
	laidOut("first:artifacthub.io")
	if err := r.Push(t.Context()); err != nil {
		t.Errorf("what has no version: %v", err)
	}
}

// TestLogin: the registry gets the user of the environment while logged in, and no other host does.
func TestLogin(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("REGISTRY_USER", "releaser")
	t.Setenv("REGISTRY_PASSWORD", "secret")
	r := &Release{Variables: Variables{values: map[string]string{Registry: "registry.invalid/batch"}}}
	user := func(at string) string {
		t.Helper()
		host, err := name.NewRegistry(at)
		if err != nil {
			t.Fatal(err)
		}
		known, err := authn.DefaultKeychain.Resolve(host)
		if err != nil {
			t.Fatal(err)
		}
		got, err := known.Authorization()
		if err != nil {
			t.Fatal(err)
		}
		return got.Username + ":" + got.Password
	}
	leave, err := r.Login()
	if err != nil {
		t.Fatal(err)
	}
	if got := user("registry.invalid"); got != "releaser:secret" {
		t.Errorf("logged in as %s", got)
	}
	if got := user("other.invalid"); got != ":" {
		t.Errorf("logged in to another host as %s", got)
	}
	leave()
	if got := user("registry.invalid"); got != ":" {
		t.Errorf("logged out, still %s", got)
	}
}
