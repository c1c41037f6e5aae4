package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/internal/version"
	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/cluster"
	"github.com/tutti-sched/tutti/lab/demo/release"
	"github.com/tutti-sched/tutti/lab/harness"
	"github.com/tutti-sched/tutti/lab/image"
	"github.com/tutti-sched/tutti/lab/program"
	"github.com/tutti-sched/tutti/lab/publish"
)

// TestARelease makes the release of this version for this machine's architecture, twice. It pushes one to a registry of this
// machine, and installs the chart from there: kwok plays its pods, and the images that they name are in the registry. `make
// release` makes it for all architectures.
func TestARelease(t *testing.T) {
	t.Parallel()
	server := publish.Serve()
	t.Cleanup(server.Close)
	registry := strings.Replace(strings.TrimPrefix(server.URL, "http://"), "127.0.0.1", "localhost", 1) + "/batch"
	made := makeRelease(t, registry)
	if again := files(t, makeRelease(t, registry)); !slices.Equal(files(t, made), again) {
		t.Errorf("made again, the release is not the same:\n%s\n%s", files(t, made), again)
	}
	assertPlugin(t, made)
	assertBOM(t, made)
	assertCommands(t, made)
	if err := made.Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	installPublished(t, registry, made)
}

// makeRelease makes it in a folder of its own, for a registry. The other variables stay as they are.
func makeRelease(t *testing.T, registry string) *publish.Release {
	t.Helper()
	root, dir := repository(t), t.TempDir()
	notes := filepath.Join(dir, "CHANGELOG.md")
	if err := os.WriteFile(notes, []byte("# Changelog\n\n## ["+version.Number()+"] - UNRELEASED\n\n- gangs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	variables, err := publish.ReadVariables(root)
	if err != nil {
		t.Fatal(err)
	}
	helm, err := binaries.Ensure(t.Context(), env.Cluster.Version(), t.Output(), binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	r := &publish.Release{
		Root: root, Out: filepath.Join(dir, "out"), Changelog: notes, Variables: variables.With(publish.Registry, registry), Helm: helm.Path(binaries.Helm), Progress: t.Output(),
		// The commit and its time are not asked of git: a test runs also where there is none.
		Of:            image.Source{Version: version.Number(), Commit: "0123456789abcdef", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		Architectures: []string{runtime.GOARCH}, Plugins: []program.Target{{OS: runtime.GOOS, Arch: runtime.GOARCH}},
	}
	if err := r.Make(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func files(t *testing.T, r *publish.Release) []string {
	t.Helper()
	lines, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) < 10 {
		t.Fatalf("a release of %d files: %q", len(lines), lines)
	}
	return lines
}

// contents returns the text of a file of the release.
func contents(t *testing.T, r *publish.Release, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Out, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// assertPlugin: the archive that the manifest for krew names, by its digest, has the program at the name that it says, and its
// licences.
func assertPlugin(t *testing.T, r *publish.Release) {
	t.Helper()
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct{ URI, SHA256, Bin string }
		}
	}
	if err := yaml.Unmarshal(contents(t, r, "tutti.yaml"), &manifest); err != nil || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("the manifest for krew: %+v, %v", manifest, err)
	}
	platform := manifest.Spec.Platforms[0]
	name := platform.URI[strings.LastIndex(platform.URI, "/")+1:]
	if sum := platform.SHA256 + "  " + name + "\n"; !slices.Contains(files(t, r), sum) || !bytes.Contains(contents(t, r, "checksums.txt"), []byte(sum)) {
		t.Errorf("the manifest for krew names %s with the digest %s, which it does not have", name, platform.SHA256)
	}
	if want := "${REPOSITORY}/releases/download/v" + version.Number() + "/" + name; os.Getenv("REPOSITORY") == "" && platform.URI != want {
		t.Errorf("the manifest for krew names %s, want %s", platform.URI, want)
	}
	unzip, err := gzip.NewReader(bytes.NewReader(contents(t, r, name)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), platform.Bin)
	var names []string
	for packed := tar.NewReader(unzip); ; {
		header, err := packed.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		text, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == platform.Bin {
			if err := os.WriteFile(path, text, os.FileMode(header.Mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !slices.Contains(names, "LICENSE") || !slices.Contains(names, "licenses/k8s.io/client-go/LICENSE") {
		t.Errorf("the archive of kubectl tutti lacks licences: %q", names)
	}
	if out, err := exec.CommandContext(t.Context(), path, "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), version.Number()) {
		t.Errorf("kubectl tutti --version: %v: %s", err, out)
	}
}

// assertBOM: the bill of material of the scheduler has the modules that are linked in, with their versions and licences.
func assertBOM(t *testing.T, r *publish.Release) {
	t.Helper()
	var bom struct {
		BOMFormat  string
		Components []struct {
			Name, Version, PURL string
			Licenses            []struct{ License struct{ ID string } }
		}
	}
	if err := json.Unmarshal(contents(t, r, "tutti-scheduler.cdx.json"), &bom); err != nil || bom.BOMFormat != "CycloneDX" {
		t.Fatalf("the bill of material is of the format %q, %v", bom.BOMFormat, err)
	}
	found := 0
	for _, part := range bom.Components {
		if part.Version == "" || part.PURL != "pkg:golang/"+part.Name+"@"+part.Version || len(part.Licenses) == 0 {
			t.Errorf("the bill of material says %+v", part)
		}
		if part.Name == "k8s.io/client-go" && part.Licenses[0].License.ID == "Apache-2.0" || part.Name == "std" && part.Version == runtime.Version() {
			found++
		}
	}
	if found != 2 {
		t.Errorf("the bill of material has not both client-go and Go %s, among %d modules", runtime.Version(), len(bom.Components))
	}
}

// assertCommands: each artefact of this version is signed by its digest, and each file that signing needs is there.
func assertCommands(t *testing.T, r *publish.Release) {
	t.Helper()
	commands, err := r.Commands()
	if err != nil {
		t.Fatal(err)
	}
	artefacts, err := r.Artefacts()
	if err != nil || len(artefacts) != 4 {
		t.Fatalf("artefacts: %+v, %v", artefacts, err)
	}
	text := ""
	for _, command := range commands {
		text += strings.Join(command, " ") + "\n"
		for i, word := range command {
			if word == "--predicate" {
				contents(t, r, command[i+1])
			}
		}
	}
	for _, artefact := range artefacts {
		if path, tag, _ := strings.Cut(artefact.Name, ":"); tag == version.Number() {
			for _, verb := range []string{"sign", "attest"} {
				if !strings.Contains(text, "cosign "+verb+" ") || !strings.Contains(text, path+"@"+artefact.Digest.String()) {
					t.Errorf("no command has cosign %s %s:\n%s", verb, artefact.Name, text)
				}
			}
		}
	}
}

// installPublished installs the chart from the registry, in a cluster of its own.
func installPublished(t *testing.T, registry string, r *publish.Release) {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{
		Kubernetes: env.Cluster.Version(), ControllerManager: true, Scheduler: true, Kwok: true, JobsRun: true,
		Dir: filepath.Join(t.TempDir(), "cluster"), Out: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Stop() })
	if err := c.CreateNodes(t.Context(), cluster.Nodes("node", 2, map[string]string{"cpu": "8", "memory": "32Gi"})...); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Helm(t.Context(), "install", release.Name, "oci://"+registry+"/charts/tutti", "--version", version.Number(), "--plain-http",
		"--namespace", release.Namespace, "--create-namespace", "--wait", "--timeout", release.Timeout); err != nil {
		t.Fatal(err)
	}
	lab, err := harness.NewEnv(c)
	if err != nil {
		t.Fatal(err)
	}
	running := podTemplate(t, lab).Spec.Containers[0].Image
	if want := registry + "/" + program.Scheduler + ":" + version.Number(); running != want {
		t.Errorf("the chart of the release runs the image %s, want %s", running, want)
	}
	reference, err := name.ParseReference(running)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(reference)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != len(r.Architectures) || manifest.Manifests[0].Platform.Architecture != runtime.GOARCH {
		t.Errorf("the image is for %+v, %v", manifest, err)
	}
}
