package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/internal/configuration"
)

// TestPagesAreFresh: every table in the documentation matches the declarations, and each plugin has a page.
func TestPagesAreFresh(t *testing.T) {
	pages := map[string]string{"configuration.md": "plugins/%s.md"}
	for _, e := range configuration.Entries() {
		if e.Kind == "plugin" {
			pages["plugins/"+e.Name+".md"] = ""
		}
	}
	for page, links := range pages {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Error(err)
			continue
		}
		filled, err := fill(string(text), links)
		if err != nil {
			t.Errorf("%s: %v", page, err)
		} else if filled != string(text) {
			t.Errorf("docs/%s is stale; run make generate", page)
		}
		if !strings.Contains(string(text), beginMark) {
			t.Errorf("docs/%s has no table that is generated", page)
		}
	}
}

func TestFillRefusesMarksThatMeanNothing(t *testing.T) {
	for _, page := range []string{
		"x " + beginMark + "all plugins" + endOfBegin + " and no end",
		"x " + beginMark + "arguments of unknown" + endOfBegin + endMark,
		"x " + beginMark + "all nodes" + endOfBegin + endMark,
	} {
		if text, err := fill(page, ""); err == nil {
			t.Errorf("%q became %q", page, text)
		}
	}
}
