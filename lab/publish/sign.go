package publish

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tutti-sched/tutti/lab/archive"
)

// bundle is the end of the names of files that signing writes.
const bundle = ".sigstore.json"

// Commands returns what signs and publishes a release that was pushed. Signing is keyless: cosign takes the identity of the
// workflow from the forge, so that the commands run in a workflow only. They run in the folder of the release.
func (r *Release) Commands() ([][]string, error) {
	artefacts, err := r.Artefacts()
	if err != nil {
		return nil, err
	}
	var all [][]string
	for _, artefact := range artefacts {
		at := artefact.pinned(r.Variables.Get(Registry))
		switch program, _, _ := strings.Cut(artefact.Name, ":"); {
		case artefact.index:
			all = append(all, []string{"cosign", "sign", "--yes", "--recursive", at},
				[]string{"cosign", "attest", "--yes", "--type", "cyclonedx", "--predicate", bomOf(program), at},
				[]string{"cosign", "attest", "--yes", "--type", "slsaprovenance1", "--predicate", provenance, at})
		case strings.HasSuffix(artefact.Name, ":"+r.Of.Version):
			all = append(all, []string{"cosign", "sign", "--yes", at},
				[]string{"cosign", "attest", "--yes", "--type", "slsaprovenance1", "--predicate", provenance, at})
		}
	}
	files, err := archive.Folder(r.Out)
	if err != nil {
		return nil, err
	}
	publish := []string{"gh", "release", "create", "v" + r.Of.Version, "--repo", r.Variables.Get(repository), "--verify-tag",
		"--title", r.Of.Version, "--notes-file", notes, checksums + bundle}
	for _, file := range files {
		if !strings.HasPrefix(file.Name, layoutFolder+"/") && file.Name != notes && !strings.HasSuffix(file.Name, bundle) {
			publish = append(publish, file.Name)
		}
	}
	return append(all,
		[]string{"cosign", "sign-blob", "--yes", "--bundle", checksums + bundle, checksums},
		publish), nil
}

// Run runs the commands in the folder of the release, and stops at the first that fails.
func (r *Release) Run(ctx context.Context, commands [][]string) error {
	for _, line := range commands {
		fmt.Fprintf(r.Progress, "release: %s\n", strings.Join(line, " "))
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = r.Out, r.Progress, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(line[:min(2, len(line))], " "), err)
		}
	}
	return nil
}

// Login lets this process and its children push to the registry as REGISTRY_USER with REGISTRY_PASSWORD, where the environment
// has them, until leave is called. Without them they have what docker's own configuration allows.
func (r *Release) Login() (leave func(), err error) {
	user, before := os.Getenv("REGISTRY_USER"), os.Getenv("DOCKER_CONFIG")
	if user == "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "tutti-login-")
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	leave = func() {
		os.RemoveAll(dir)
		os.Setenv("DOCKER_CONFIG", before)
	}
	host, _, _ := strings.Cut(r.Variables.Get(Registry), "/")
	secret := base64.StdEncoding.EncodeToString([]byte(user + ":" + os.Getenv("REGISTRY_PASSWORD")))
	text, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"auth": secret}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600)
	}
	if err != nil {
		leave()
		return nil, fmt.Errorf("registry: %w", err)
	}
	return leave, os.Setenv("DOCKER_CONFIG", dir)
}

// List prints the digests of what was made, and the commands that were not run.
func (r *Release) List(to io.Writer) error {
	files, err := r.Files()
	if err != nil {
		return err
	}
	artefacts, err := r.Artefacts()
	if err != nil {
		return err
	}
	commands, err := r.Commands()
	if err != nil {
		return err
	}
	for _, line := range files {
		if !strings.Contains(line, "  "+layoutFolder+"/blobs/") {
			fmt.Fprint(to, line)
		}
	}
	fmt.Fprintf(to, "\nIn the layout %s, which is pushed to %s:\n", layoutFolder, r.Variables.Get(Registry))
	for _, artefact := range artefacts {
		fmt.Fprintf(to, "%s  %s\n", artefact.Digest.Hex, artefact.Name)
	}
	fmt.Fprintf(to, "\nNot run, since they need the registry, the repository and the identity of a workflow there:\n")
	for _, line := range commands {
		fmt.Fprintf(to, "  %s\n", strings.Join(line, " "))
	}
	if unset := r.Variables.Unset(); len(unset) > 0 {
		fmt.Fprintf(to, "\nNot set, and explained in release.env.example: %s\n", strings.Join(unset, ", "))
	}
	return nil
}
