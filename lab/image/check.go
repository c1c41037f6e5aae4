package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Check reads an archive as a program that loads it would, by the specification of OCI layouts and without its writer's code,
// and returns what is wrong with it: a blob that is not what its digest says, another user or entry point than the spec's,
// more than one file, a program that needs libraries, a time that is not the fixed one, an architecture that is missing. Where
// this machine can, it runs the program with --help.
func Check(ctx context.Context, archive io.Reader, specs []Spec) error {
	programs, err := read(archive, specs)
	if err != nil {
		return fmt.Errorf("archive of image %s: %w", specs[0].Reference, err)
	}
	for i := range specs {
		if err := checkProgram(ctx, specs[i], programs[i]); err != nil {
			return err
		}
	}
	return nil
}

func checkProgram(ctx context.Context, spec Spec, program []byte) error {
	if err := isStatic(program); err != nil {
		return fmt.Errorf("image %s: %s: %w", spec.Reference, spec.Program, err)
	}
	if spec.Architecture != runtime.GOARCH || runtime.GOOS != "linux" {
		return nil
	}
	return runs(ctx, spec, program)
}

// read takes an archive apart and returns the programs in it.
func read(archive io.Reader, specs []Spec) (programs [][]byte, err error) {
	files, err := untar(archive)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		digest, is := strings.CutPrefix(name, "blobs/sha256/")
		if sum := sha256.Sum256(text); is && hex.EncodeToString(sum[:]) != digest {
			return nil, fmt.Errorf("%s is not what its name says", name)
		}
	}
	if !bytes.Contains(files["oci-layout"], []byte(`"imageLayoutVersion": "1.0.0"`)) {
		return nil, fmt.Errorf("file oci-layout says %q", files["oci-layout"])
	}
	var index struct{ Manifests []descriptor }
	if err := decode(files, "index.json", &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%d images, want 1", len(index.Manifests))
	}
	if got, want := index.Manifests[0].Annotations["io.containerd.image.name"], fullName(specs[0].Reference); got != want {
		return nil, fmt.Errorf("its name is %q, want %q", got, want)
	}
	if len(specs) > 1 {
		if err := decode(files, index.Manifests[0].path(), &index); err != nil {
			return nil, err
		}
	}
	if len(index.Manifests) != len(specs) {
		return nil, fmt.Errorf("it is for %d architectures, want %d", len(index.Manifests), len(specs))
	}
	for i, spec := range specs {
		if got := index.Manifests[i].Platform; got.OS != "linux" || got.Architecture != spec.Architecture {
			return nil, fmt.Errorf("it is for %s/%s, want linux/%s", got.OS, got.Architecture, spec.Architecture)
		}
		program, err := readImage(files, index.Manifests[i], spec, len(specs) == 1)
		if err != nil {
			return nil, err
		}
		programs = append(programs, program)
	}
	return programs, nil
}

// readImage returns the program of one image; docker reports whether it is in docker's file, too.
func readImage(files map[string][]byte, at descriptor, spec Spec, docker bool) ([]byte, error) {
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	if err := decode(files, at.path(), &manifest); err != nil {
		return nil, err
	}
	if len(manifest.Layers) != 1 {
		return nil, fmt.Errorf("%d layers, want 1", len(manifest.Layers))
	}
	if docker {
		if err := checkDocker(files, spec, manifest.Config, manifest.Layers[0]); err != nil {
			return nil, err
		}
	}
	diff, program, err := readLayer(files[manifest.Layers[0].path()], spec)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	return program, checkConfig(files, manifest.Config, spec, diff)
}

// descriptor points at a blob.
type descriptor struct {
	Digest      string
	Annotations map[string]string
	Platform    struct{ OS, Architecture string }
}

func (d descriptor) path() string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }

func decode(files map[string][]byte, name string, to any) error {
	text, found := files[name]
	if !found {
		return fmt.Errorf("no file %s", name)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("file %s: %w", name, err)
	}
	return nil
}

// untar reads all files of a tar; each must have the fixed time.
func untar(archive io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if !header.ModTime.Equal(born()) {
			return nil, fmt.Errorf("file %s is of %s, want %s", header.Name, header.ModTime.UTC(), born())
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("file %s: %w", header.Name, err)
		}
	}
}

func checkDocker(files map[string][]byte, spec Spec, config, layer descriptor) error {
	var entries []dockerManifest
	if err := decode(files, "manifest.json", &entries); err != nil {
		return err
	}
	if len(entries) != 1 || entries[0].Config != config.path() || !slices.Equal(entries[0].Layers, []string{layer.path()}) ||
		!slices.Equal(entries[0].RepoTags, []string{spec.Reference}) {
		return fmt.Errorf("file manifest.json says %+v", entries)
	}
	return nil
}

// readLayer returns the digest of the layer's tar, and the one file in it.
func readLayer(layer []byte, spec Spec) (diff string, program []byte, err error) {
	unzip, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		return "", nil, err
	}
	plain, err := io.ReadAll(unzip)
	if err != nil {
		return "", nil, err
	}
	inside, err := untar(bytes.NewReader(plain))
	if err != nil {
		return "", nil, err
	}
	program, found := inside[spec.Program]
	if !found || len(inside) != 1 {
		return "", nil, fmt.Errorf("it holds %q, want %s alone", slices.Sorted(maps.Keys(inside)), spec.Program)
	}
	header, err := tar.NewReader(bytes.NewReader(plain)).Next()
	if err != nil {
		return "", nil, err
	}
	if header.Mode != 0o555 || header.Uid != 0 || header.Gid != 0 {
		return "", nil, fmt.Errorf("%s has mode %o of user %d:%d, want 555 of 0:0", spec.Program, header.Mode, header.Uid, header.Gid)
	}
	sum := sha256.Sum256(plain)
	return "sha256:" + hex.EncodeToString(sum[:]), program, nil
}

func checkConfig(files map[string][]byte, at descriptor, spec Spec, diff string) error {
	var got struct {
		Architecture, OS string
		Config           struct {
			User       string
			Entrypoint []string
			Cmd, Env   []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := decode(files, at.path(), &got); err != nil {
		return err
	}
	var wrong []error
	if got.Architecture != spec.Architecture || got.OS != "linux" {
		wrong = append(wrong, fmt.Errorf("it is for %s/%s, want linux/%s", got.OS, got.Architecture, spec.Architecture))
	}
	if got.Config.User != spec.User {
		wrong = append(wrong, fmt.Errorf("it runs as %q, want %q", got.Config.User, spec.User))
	}
	if want := []string{"/" + spec.Program}; !slices.Equal(got.Config.Entrypoint, want) || len(got.Config.Cmd) > 0 {
		wrong = append(wrong, fmt.Errorf("it starts %q with %q, want %q", got.Config.Entrypoint, got.Config.Cmd, want))
	}
	if len(got.Config.Env) > 0 {
		wrong = append(wrong, fmt.Errorf("it sets %q", got.Config.Env))
	}
	if !slices.Equal(got.RootFS.DiffIDs, []string{diff}) {
		wrong = append(wrong, fmt.Errorf("its layers are %q, want %q", got.RootFS.DiffIDs, diff))
	}
	return errors.Join(wrong...)
}

// isStatic is nil when a program needs nothing but the kernel: an empty image has no loader and no libraries.
func isStatic(program []byte) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return fmt.Errorf("no program of Linux: %w", err)
	}
	defer file.Close()
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("it is linked with libraries, which the image does not have")
		}
	}
	return nil
}

// runs is nil when the program starts, in an empty folder and with no environment, and explains itself.
func runs(ctx context.Context, spec Spec, program []byte) error {
	dir, err := os.MkdirTemp("", "tutti-image-")
	if err != nil {
		return fmt.Errorf("folder of the program: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, spec.Program)
	if err := os.WriteFile(path, program, 0o555); err != nil {
		return fmt.Errorf("program of image %s: %w", spec.Reference, err)
	}
	cmd := exec.CommandContext(ctx, path, "--help")
	cmd.Dir, cmd.Env = dir, []string{}
	text, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(text, []byte(spec.Program)) {
		return fmt.Errorf("image %s: %s --help: %w: %s", spec.Reference, spec.Program, err, text)
	}
	return nil
}
