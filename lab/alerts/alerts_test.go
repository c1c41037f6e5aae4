package alerts

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// TestAlertsFireAndClear plays the stories of testdata against the rules as helm renders them.
func TestAlertsFireAndClear(t *testing.T) {
	names, stories := play(t, "alerts.yaml")
	assertComplete(t, names, stories)
}

// TestAgentsThatAreNotScraped plays those about agents against the rules of a release that installs them.
func TestAgentsThatAreNotScraped(t *testing.T) { play(t, "agents.yaml", "isolcpu.enabled=true") }

// play plays a file of stories against the rules that helm renders with the values, and returns the alerts and the stories.
func play(t *testing.T, file string, values ...string) (names []string, stories string) {
	t.Helper()
	tool, err := New(t.Context(), t.TempDir(), t.Output(), values...)
	if errors.Is(err, ErrNoPromtool) && os.Getenv("CI") != "true" {
		t.Skipf("the alerts are not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tool.Check(t.Context()), tool.Play(t.Context(), string(text))); err != nil {
		t.Fatal(err)
	}
	return tool.Names(), string(text)
}

// assertComplete wants each alert to fire in a story, and to have a section in the page that its runbook_url leads to.
func assertComplete(t *testing.T, names []string, stories string) {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 10 {
		t.Fatalf("the alerts are %q", names)
	}
	for _, name := range names {
		if !strings.Contains(stories, `alertname="`+name+`"`) {
			t.Errorf("%s fires in no story", name)
		}
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("docs/operations.md has no section %s", name)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^### (Tutti\w+)$`).FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(names, found[1]) {
			t.Errorf("docs/operations.md has a section of the alert %s, which is not there", found[1])
		}
	}
}
