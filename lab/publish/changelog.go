package publish

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Section returns what a changelog says of a version, without the heading, and what stands behind the version in the heading: its
// date, or the word UNRELEASED. A heading is such as "## [0.1.0] - 2026-12-01".
func Section(file, version string) (text, date string, err error) {
	whole, err := os.ReadFile(file)
	if err != nil {
		return "", "", fmt.Errorf("changelog: %w", err)
	}
	_, below, found := strings.Cut("\n"+string(whole), "\n## ["+version+"]")
	if !found {
		return "", "", fmt.Errorf("%s has no heading \"## [%s] - DATE\": write what is new in this version", filepath.Base(file), version)
	}
	heading, below, _ := strings.Cut(below, "\n")
	text, _, _ = strings.Cut("\n"+below, "\n## [")
	if text = strings.TrimSpace(text); text == "" {
		return "", "", fmt.Errorf("%s says nothing below \"## [%s]\"", filepath.Base(file), version)
	}
	return text + "\n", strings.Trim(heading, " -"), nil
}
