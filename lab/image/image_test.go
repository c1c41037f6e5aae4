package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tutti-sched/tutti/lab/archive"
	"github.com/tutti-sched/tutti/lab/program"
)

var (
	of     = Source{Version: "0.1.0", Commit: "0123456789", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	linked = []program.Module{{Path: "k8s.io/api", Licences: []archive.File{{Name: "LICENSE", Mode: 0o444, Text: []byte("Apache")}}}}
)

// TestImage: an image holds one program and the licences of its modules, all of the commit's time. It runs the program as its
// user.
func TestImage(t *testing.T) {
	text := compiled(t, "amd64")
	for name, user := range map[string]string{program.Scheduler: "65532:65532", program.Agent: "0:0"} {
		holds(t, made(t, name, "amd64", text), name, user, "amd64", text)
	}
	if _, err := New(of, program.Scheduler, "amd64", []byte("#!/bin/sh\n"), nil); err == nil || !strings.Contains(err.Error(), "no program of Linux") {
		t.Errorf("a script as the program: %v", err)
	}
}

// TestArchive: the same image is the same file each time, docker and readers of OCI layouts find it there, and it has its name.
func TestArchive(t *testing.T) {
	text := compiled(t, "amd64")
	one := made(t, program.Scheduler, "amd64", text)
	for reference, full := range map[string]string{
		"tutti-scheduler:0.1.0":             "docker.io/library/tutti-scheduler:0.1.0",
		"batch/tutti-scheduler:1":           "docker.io/batch/tutti-scheduler:1",
		"localhost/tutti-scheduler:1":       "localhost/tutti-scheduler:1",
		"registry.invalid:5000/b/scheduler": "registry.invalid:5000/b/scheduler:latest",
	} {
		file, dir := written(t, reference, one)
		loaded, err := tarball.ImageFromPath(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		holds(t, loaded, program.Scheduler, "65532:65532", "amd64", text)
		index, err := layout.ImageIndexFromPath(dir)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 1 {
			t.Fatalf("%d manifests, %v", len(manifest.Manifests), err)
		}
		if got := manifest.Manifests[0].Annotations["io.containerd.image.name"]; got != full {
			t.Errorf("%s: containerd calls it %s, want %s", reference, got, full)
		}
		again, _ := written(t, reference, made(t, program.Scheduler, "amd64", text))
		if !bytes.Equal(read(t, file), read(t, again)) {
			t.Error("the same program is another archive the second time")
		}
	}
}

// TestSeveralArchitectures are one archive, with one name and an index, in which each has its own program.
func TestSeveralArchitectures(t *testing.T) {
	texts := map[string][]byte{"amd64": compiled(t, "amd64"), "arm64": compiled(t, "arm64")}
	_, dir := written(t, "localhost/tutti-scheduler:0.1.0",
		made(t, program.Scheduler, "amd64", texts["amd64"]), made(t, program.Scheduler, "arm64", texts["arm64"]))
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%d manifests, %v", len(manifest.Manifests), err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil || len(manifest.Manifests) != 2 {
		t.Fatalf("%d architectures, %v", len(manifest.Manifests), err)
	}
	for _, at := range manifest.Manifests {
		inside, err := index.Image(at.Digest)
		if err != nil {
			t.Fatal(err)
		}
		holds(t, inside, program.Scheduler, "65532:65532", at.Platform.Architecture, texts[at.Platform.Architecture])
	}
}

// TestSourceOf: a commit has its own time, unless SOURCE_DATE_EPOCH is another, and a + where files differ from it.
func TestSourceOf(t *testing.T) {
	dir := t.TempDir()
	want := func(commit, at string) {
		t.Helper()
		got, err := SourceOf(t.Context(), dir, "0.1.0")
		if err != nil || !strings.HasPrefix(got.Commit, strings.TrimSuffix(commit, "+")) || strings.HasSuffix(got.Commit, "+") != strings.HasSuffix(commit, "+") ||
			got.At.Format(time.RFC3339) != at {
			t.Errorf("%+v, %v; want %q of %s", got, err, commit, at)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=test", "-c", "user.email=test@localhost"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args[0], err, out)
		}
		return strings.TrimSpace(string(out))
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	want("", "1970-01-01T00:00:00Z")
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message", "first")
	commit := git("rev-parse", "HEAD")
	want(commit, "2026-01-02T03:04:05Z")
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	want(commit+"+", "2026-01-02T03:04:05Z")
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	want(commit+"+", "1970-01-02T00:00:00Z")
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if _, err := SourceOf(t.Context(), dir, "0.1.0"); err == nil || !strings.Contains(err.Error(), `"today" is no number of seconds`) {
		t.Errorf("a date in words: %v", err)
	}
}

// holds fails where an image is not what it must be.
func holds(t *testing.T, image v1.Image, name, user, architecture string, text []byte) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(config.OS, config.Architecture, config.Config.User, config.Config.Entrypoint, config.Config.Cmd, config.Config.Env, config.Created.Time)
	if want := fmt.Sprint("linux", architecture, user, []string{"/" + name}, []string{}, []string{}, of.At); got != want {
		t.Errorf("its configuration is %s, want %s", got, want)
	}
	for label, want := range map[string]string{"version": "0.1.0", "revision": "0123456789", "licenses": "Apache-2.0", "title": name} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	files := mutate.Extract(image)
	defer files.Close()
	var names []string
	for r := tar.NewReader(files); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o %d:%d", header.Name, header.Mode, header.Uid, header.Gid))
		if !header.ModTime.Equal(of.At) {
			t.Errorf("%s is of %s, want %s", header.Name, header.ModTime, of.At)
		}
		if inside, err := io.ReadAll(r); header.Name == name && (err != nil || !bytes.Equal(inside, text)) {
			t.Errorf("the program is not the one that was compiled: %v", err)
		}
	}
	if want := []string{name + " 555 0:0", "licenses/k8s.io/api/LICENSE 444 0:0"}; !slices.Equal(names, want) {
		t.Errorf("it holds %q, want %q", names, want)
	}
}

func made(t *testing.T, name, architecture string, text []byte) v1.Image {
	t.Helper()
	image, err := New(of, name, architecture, text, linked)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// written returns an archive, and the folder of the layout in it.
func written(t *testing.T, reference string, images ...v1.Image) (file, dir string) {
	t.Helper()
	dir = t.TempDir()
	file = filepath.Join(t.TempDir(), "image.tar")
	var text bytes.Buffer
	if err := Archive(&text, of, reference, images); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "-xf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file, dir
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// compiled is a small program.
func compiled(t *testing.T, architecture string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-trimpath", "-o", path, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+architecture)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return read(t, path)
}
