package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/image"
)

// imageCommand builds the container images.
func imageCommand() *cobra.Command {
	var (
		version       string
		architectures []string
		references    map[string]string
	)
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Build the container images as files, without a container engine",
		Long: `Build the container images as files that docker, podman, skopeo, containerd and kind load. Nothing is pulled: an image is
one static program on an empty base, with the licences of what is linked in. The same commit makes the same bytes. What was written
is read again and checked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := binaries.Root()
			if err != nil {
				return err
			}
			of, err := image.SourceOf(cmd.Context(), root, version)
			if err != nil {
				return err
			}
			for _, name := range slices.Backward(slices.Sorted(maps.Keys(image.Users()))) { // the scheduler first
				if err := makeImage(cmd.Context(), cmd.OutOrStdout(), root, of, name, cmp.Or(references[name], name+":"+version), architectures); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&version, "version", "", "the version, which is also the tag")
	flags.StringSliceVar(&architectures, "arch", []string{runtime.GOARCH}, "the architectures, in Go's words; several make one file with an index")
	flags.StringToStringVar(&references, "name", nil, "another name and tag for the image of a program, such as tutti-agent=host/agent:1")
	cobra.CheckErr(cmd.MarkFlagRequired("version"))
	return cmd
}

// makeImage writes the archive of one image into build/images.
func makeImage(ctx context.Context, progress io.Writer, root string, of image.Source, name, reference string, architectures []string) error {
	var images []v1.Image
	for _, architecture := range architectures {
		made, err := image.Build(ctx, root, of, name, architecture)
		if err != nil {
			return err
		}
		images = append(images, made)
	}
	var text bytes.Buffer
	if err := image.Archive(&text, of, reference, images); err != nil {
		return err
	}
	path := filepath.Join("build", "images", name+"-"+strings.Join(architectures, "-")+".tar")
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o755); err != nil {
		return fmt.Errorf("folder of images: %w", err)
	}
	if err := os.WriteFile(filepath.Join(root, path), text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("archive of image %s: %w", reference, err)
	}
	fmt.Fprintf(progress, "%s  %s  %d MB  sha256:%x\n", path, reference, text.Len()>>20, sha256.Sum256(text.Bytes()))
	return nil
}
