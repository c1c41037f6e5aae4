package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/image"
)

// imageCommand builds the container images.
func imageCommand() *cobra.Command {
	var (
		version, out  string
		architectures []string
		references    map[string]string
	)
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the container images as files, without a container engine",
		Long: `Build the container images as files that docker, podman, skopeo, containerd and kind load. Nothing is pulled: an image is
one static program on an empty base. The same source makes the same bytes. What was written is read again and checked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for i := range image.Specs(version, "") {
				var specs []image.Spec
				for _, architecture := range architectures {
					spec := image.Specs(version, architecture)[i]
					spec.Reference = cmp.Or(references[spec.Program], spec.Reference)
					specs = append(specs, spec)
				}
				if err := makeImage(cmd.Context(), cmd.OutOrStdout(), specs, out); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&version, "version", "", "the version, which is also the tag")
	flags.StringSliceVar(&architectures, "arch", []string{runtime.GOARCH}, "the architectures, in Go's words; several make one file with an index")
	flags.StringVar(&out, "out", "", "the folder that the files go to; without it, build/images of the repository")
	flags.StringToStringVar(&references, "name", nil, "another name and tag for the image of a program, such as tutti-agent=host/agent:1")
	cobra.CheckErr(cmd.MarkFlagRequired("version"))
	return cmd
}

// makeImage compiles a program for each spec, writes its image and checks what was written.
func makeImage(ctx context.Context, progress io.Writer, specs []image.Spec, out string) error {
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "build", "images")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return fmt.Errorf("folder of images: %w", err)
	}
	spec := specs[0]
	name, programs := spec.Program, make([][]byte, len(specs))
	for i := range specs {
		if programs[i], err = compile(ctx, root, specs[i]); err != nil {
			return err
		}
		name += "-" + specs[i].Architecture
	}
	var archive bytes.Buffer
	if err := image.Write(&archive, specs, programs); err != nil {
		return err
	}
	if err := image.Check(ctx, bytes.NewReader(archive.Bytes()), specs); err != nil {
		return err
	}
	path := filepath.Join(out, name+".tar")
	if err := os.WriteFile(path, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("archive of image %s: %w", spec.Reference, err)
	}
	shown := path
	if inside, err := filepath.Rel(root, path); err == nil && !strings.HasPrefix(inside, "..") {
		shown = inside
	}
	fmt.Fprintf(progress, "%s  %s  %d MB  sha256:%x\n", shown, spec.Reference, archive.Len()>>20, sha256.Sum256(archive.Bytes()))
	return nil
}

// compile returns the program as it belongs into an image: static, and without this machine's paths.
func compile(ctx context.Context, root string, spec image.Spec) ([]byte, error) {
	dir, err := os.MkdirTemp("", "tutti-image-")
	if err != nil {
		return nil, fmt.Errorf("folder of programs: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, spec.Program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", path, "./cmd/"+spec.Program)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+spec.Architecture, "GOFLAGS=", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s for %s: %w:\n%s", spec.Program, spec.Architecture, err, text)
	}
	return os.ReadFile(path)
}
