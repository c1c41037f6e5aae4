package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tutti-sched/tutti/lab/binaries"
	"github.com/tutti-sched/tutti/lab/image"
	"github.com/tutti-sched/tutti/lab/program"
	"github.com/tutti-sched/tutti/lab/publish"
)

// releaseCommand makes a release, and publishes it.
func releaseCommand() *cobra.Command {
	var (
		version string
		dry     bool
	)
	cmd := &cobra.Command{
		Use:   "release",
		Short: "Make a release, and publish it",
		Long: `Make a release in build/release/VERSION: the images and the chart in an OCI layout, kubectl tutti for each system, bills of
material, checksums and notes. Then push it to the registry, sign it and publish it. The same commit makes the same bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.OutOrStdout()
			root, err := binaries.Root()
			if err != nil {
				return err
			}
			variables, err := publish.ReadVariables(root)
			if err != nil {
				return err
			}
			of, err := image.SourceOf(ctx, root, version)
			if err != nil {
				return err
			}
			r := &publish.Release{
				Root: root, Out: filepath.Join(root, "build", "release", version),
				Changelog: filepath.Join(root, "CHANGELOG.md"), Of: of, Variables: variables, Architectures: []string{"amd64", "arm64"}, Progress: out,
			}
			for _, system := range []string{"linux", "darwin", "windows"} {
				for _, architecture := range r.Architectures {
					r.Plugins = append(r.Plugins, program.Target{OS: system, Arch: architecture})
				}
			}
			if !dry {
				if err := r.Ready(); err != nil {
					return fmt.Errorf("version %s cannot be published from here; DRY_RUN=1 makes it without:\n%w", version, err)
				}
			}
			helm, err := binaries.Ensure(ctx, binaries.DefaultKubernetes, os.Stderr, binaries.Helm)
			if err != nil {
				return err
			}
			r.Helm = helm.Path(binaries.Helm)
			if err := r.Make(ctx); err != nil {
				return err
			}
			if dry {
				return r.List(out)
			}
			leave, err := r.Login()
			if err != nil {
				return err
			}
			defer leave()
			if err := r.Push(ctx); err != nil {
				return err
			}
			commands, err := r.Commands()
			if err != nil {
				return err
			}
			return r.Run(ctx, commands)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&version, "version", "", "the version, such as 0.1.0")
	flags.BoolVar(&dry, "dry-run", false, "make it, and print what would publish it")
	cobra.CheckErr(cmd.MarkFlagRequired("version"))
	return cmd
}
