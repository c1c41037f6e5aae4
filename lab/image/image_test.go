package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hello is a program that explains itself.
const hello = `package main

import ("fmt"; "os")

func main() { fmt.Println("Usage: tutti-scheduler", len(os.Args)) }
`

// TestWriteAndCheck: what is written passes the check, and is the same bytes each time.
func TestWriteAndCheck(t *testing.T) {
	program := compiled(t, "CGO_ENABLED=0")
	for _, spec := range Specs("0.1.0", runtime.GOARCH) {
		if spec.Program != "tutti-scheduler" {
			continue
		}
		archive := written(t, spec, program)
		if err := Check(t.Context(), bytes.NewReader(archive), []Spec{spec}); err != nil {
			t.Error(err)
		}
		if !bytes.Equal(archive, written(t, spec, program)) {
			t.Error("the same program is another archive the second time")
		}
	}
}

// TestSeveralArchitectures are one archive, with one name and an index, in which each has its own program.
func TestSeveralArchitectures(t *testing.T) {
	specs := []Spec{Specs("0.1.0", "amd64")[0], Specs("0.1.0", "arm64")[0]}
	programs := [][]byte{compiled(t, "CGO_ENABLED=0", "GOARCH=amd64"), compiled(t, "CGO_ENABLED=0", "GOARCH=arm64")}
	var archive, single bytes.Buffer
	if err := errors.Join(Write(&archive, specs, programs), Write(&single, specs[:1], programs)); err != nil {
		t.Fatal(err)
	}
	if err := Check(t.Context(), bytes.NewReader(archive.Bytes()), specs); err != nil {
		t.Error(err)
	}
	read, err := read(bytes.NewReader(archive.Bytes()), specs)
	if err != nil || len(read) != 2 || !bytes.Equal(read[0], programs[0]) || !bytes.Equal(read[1], programs[1]) {
		t.Errorf("the programs in it are not those that were written: %v", err)
	}
	for want, wrong := range map[string][]Spec{
		"it is for linux/amd64, want linux/arm64": {specs[1], specs[0]},
		"it is for 2 architectures, want 3":       append(specs[:2:2], specs[0]),
		"it is for /, want linux/amd64":           specs[:1],
	} {
		if err := Check(t.Context(), bytes.NewReader(archive.Bytes()), wrong); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q in it", err, want)
		}
	}
	if err := Check(t.Context(), bytes.NewReader(single.Bytes()), specs); err == nil {
		t.Error("one architecture passes for two")
	}
}

// TestCheckFindsWhatIsWrong plants what may go wrong, one after another.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	spec := Specs("0.1.0", runtime.GOARCH)[0]
	program := compiled(t, "CGO_ENABLED=0")
	good := written(t, spec, program)
	changed := func(from, to string) []byte {
		if !bytes.Contains(good, []byte(from)) {
			t.Fatalf("no %q in the archive", from)
		}
		return bytes.Replace(good, []byte(from), []byte(to), 1)
	}
	root, agent, other := spec, spec, spec
	root.User, agent.Program, other.Architecture = "0:0", "tutti-agent", "s390x"
	for _, c := range []struct {
		name    string
		archive []byte
		want    string
	}{
		{"another user", written(t, root, program), `it runs as "0:0"`},
		{"another program", written(t, agent, program), "want tutti-scheduler alone"},
		{"another architecture", written(t, other, program), "it is for linux/s390x"},
		{"a blob that was changed", changed("65532:65532", "65532:65533"), "is not what its name says"},
		{"a header that was changed", changed("index.json", "index.jsox"), "invalid tar header"},
		{"a time of this machine", touched(t, good), "is of 2026-01-01"},
		{"no program at all", written(t, spec, []byte("#!/bin/sh\necho tutti-scheduler")), "no program of Linux"},
		{"half of it", good[:len(good)/2], "EOF"},
	} {
		err := Check(t.Context(), bytes.NewReader(c.archive), []Spec{spec})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %q in it", c.name, err, c.want)
		}
	}
}

func TestFullName(t *testing.T) {
	for reference, want := range map[string]string{
		"tutti-scheduler:0.1.0":              "docker.io/library/tutti-scheduler:0.1.0",
		"batch/tutti-scheduler:1":            "docker.io/batch/tutti-scheduler:1",
		"localhost/tutti-scheduler:1":        "localhost/tutti-scheduler:1",
		"registry.example.com:5000/tutti:1":  "registry.example.com:5000/tutti:1",
		"registry.example.com/batch/tutti:1": "registry.example.com/batch/tutti:1",
	} {
		if got := fullName(reference); got != want {
			t.Errorf("%s: got %s, want %s", reference, got, want)
		}
	}
}

func written(t *testing.T, spec Spec, program []byte) []byte {
	t.Helper()
	var archive bytes.Buffer
	if err := Write(&archive, []Spec{spec}, [][]byte{program}); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// touched is an archive whose files are of another time.
func touched(t *testing.T, archive []byte) []byte {
	t.Helper()
	var other bytes.Buffer
	w := tar.NewWriter(&other)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		header.ModTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(w, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return other.Bytes()
}

// compiled is a small program.
func compiled(t *testing.T, env ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(hello), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-trimpath", "-o", path, source)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return program
}
