package image

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Source says what an image is made from.
type Source struct {
	// Version is such as 0.1.0.
	Version string
	// Commit is that of the repository, with a + behind it where files differ from it. It is empty where it is not known.
	Commit string
	// At is the time of the image and of every file in it. It is not the time of the build: the same source is the same image.
	At time.Time
}

// SourceOf returns the commit of the repository at root, with its time. The variable SOURCE_DATE_EPOCH, in seconds, is another
// time. What is no repository of git has no commit, and the time 0.
func SourceOf(ctx context.Context, root, version string) (Source, error) {
	of := Source{Version: version}
	git := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out))
	}
	commit, at, _ := strings.Cut(git("log", "-1", "--format=%H %ct"), " ")
	if of.Commit = commit; commit != "" && git("status", "--porcelain") != "" {
		of.Commit += "+"
	}
	epoch := cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), at, "0")
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return of, fmt.Errorf("SOURCE_DATE_EPOCH: %q is no number of seconds", epoch)
	}
	of.At = time.Unix(seconds, 0).UTC()
	return of, nil
}

// Labels returns what describes an image, or another artefact, in the words of OCI.
func (s Source) Labels(title string) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":    title,
		"org.opencontainers.image.version":  s.Version,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/tutti-sched/tutti",
	}
	if s.Commit != "" {
		labels["org.opencontainers.image.revision"] = s.Commit
	}
	return labels
}
