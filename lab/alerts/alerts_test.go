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
	tool, err := New(t.Context(), t.TempDir(), t.Output())
	if errors.Is(err, ErrNoPromtool) {
		t.Skipf("the alerts are not tried: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stories, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tool.Check(t.Context()), tool.Play(t.Context(), string(stories))); err != nil {
		t.Fatal(err)
	}
	assertComplete(t, tool.Names(), string(stories))
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
