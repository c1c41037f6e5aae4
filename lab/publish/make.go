package publish

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tutti-sched/tutti/lab/archive"
	"github.com/tutti-sched/tutti/lab/image"
	"github.com/tutti-sched/tutti/lab/program"
)

// Release is a release in the making.
type Release struct {
	// Root is the folder of the repository, and Out the folder that the release is written to.
	Root, Out string
	// Changelog is the file that says what is new.
	Changelog string
	// Of says which version it is, and of which commit.
	Of image.Source
	// Variables are what the forge sets.
	Variables Variables
	// Architectures are those of the images, and Plugins what kubectl tutti is compiled for.
	Architectures []string
	Plugins       []program.Target
	// Helm is the program that packs and pushes the chart.
	Helm string
	// Progress is where it says what it does.
	Progress io.Writer
}

const (
	// layoutFolder is the folder with the images and the chart, as a registry has them.
	layoutFolder = "oci"
	notes        = "RELEASE_NOTES.md"
	checksums    = "checksums.txt"
	provenance   = "provenance.json"
)

// Make writes the release. The folder has nothing else afterwards.
func (r *Release) Make(ctx context.Context) error {
	number, err := os.ReadFile(filepath.Join(r.Root, "internal/version/version.txt"))
	if err != nil {
		return fmt.Errorf("version: %w", err)
	}
	if has := strings.TrimSpace(string(number)); has != r.Of.Version {
		return fmt.Errorf("version %s: the programs of this commit are %s (internal/version/version.txt)", r.Of.Version, has)
	}
	text, _, err := Section(r.Changelog, r.Of.Version)
	if err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(r.Out), os.MkdirAll(r.Out, 0o755)); err != nil {
		return fmt.Errorf("folder of the release: %w", err)
	}
	if err := r.write(notes, []byte(text)); err != nil {
		return err
	}
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"images", r.images}, {"chart", r.chart}, {"kubectl tutti", r.plugins}, {"bills of material", r.boms}, {"provenance", r.provenance},
	} {
		fmt.Fprintf(r.Progress, "release: %s\n", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return r.sums()
}

// Ready is nil when the release may be published: all variables are set, the changelog has a date, the source is a commit, and
// what signs and publishes is there.
func (r *Release) Ready() error {
	var wrong []error
	for _, name := range r.Variables.Unset() {
		wrong = append(wrong, fmt.Errorf("%s is not set: release.env.example says what it is", name))
	}
	_, date, err := Section(r.Changelog, r.Of.Version)
	if err != nil {
		wrong = append(wrong, err)
	} else if !regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(date) {
		wrong = append(wrong, fmt.Errorf("%s: %q is no date of version %s", filepath.Base(r.Changelog), date, r.Of.Version))
	}
	if r.Of.Commit == "" || strings.HasSuffix(r.Of.Commit, "+") {
		wrong = append(wrong, errors.New("files differ from the commit: commit them, or remove them"))
	}
	for program, from := range map[string]string{"cosign": "make cosign builds it", "gh": "the runners of the forge have it"} {
		if _, err := exec.LookPath(program); err != nil {
			wrong = append(wrong, fmt.Errorf("%s is not installed: %s", program, from))
		}
	}
	return errors.Join(wrong...)
}

func (r *Release) write(name string, text []byte) error {
	if err := os.WriteFile(filepath.Join(r.Out, name), text, 0o644); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// sums writes the checksums of the files that are downloaded.
func (r *Release) sums() error {
	lines, err := r.Files()
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, "  "+layoutFolder+"/") })
	return r.write(checksums, []byte(strings.Join(lines, "")))
}

// Files lists the files of the release with their digests, as sha256sum does.
func (r *Release) Files() (lines []string, err error) {
	files, err := archive.Folder(r.Out)
	if err != nil {
		return nil, fmt.Errorf("folder of the release: %w", err)
	}
	for _, file := range files {
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(file.Text), file.Name))
	}
	return lines, nil
}
