package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tutti-sched/tutti/internal/configuration"
)

// TestPagesAreFresh: every table in the documentation matches the declarations, and each plugin has a page or a section.
func TestPagesAreFresh(t *testing.T) {
	described := ""
	for _, page := range pages() {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Error(err)
			continue
		}
		filled, err := fill(string(text))
		if err != nil {
			t.Errorf("%s: %v", page, err)
		} else if filled != string(text) {
			t.Errorf("docs/%s is stale; run make generate", page)
		}
		if !strings.Contains(string(text), beginMark) {
			t.Errorf("docs/%s has no table that is generated", page)
		}
		described += string(text)
	}
	for _, e := range configuration.Entries() {
		if e.Kind == "plugin" && !strings.Contains(described, beginMark+argumentsOf+e.Name+endOfBegin) {
			t.Errorf("no page describes the plugin %s: give it a section in docs/%s", e.Name, pluginsPage)
		}
	}
}

// TestTheReferenceOfTheAPIIsFresh compares docs/api.md with the CRDs.
func TestTheReferenceOfTheAPIIsFresh(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := api(filepath.Join(root, crds))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", apiPage))
	if err != nil || string(page) != want {
		t.Errorf("docs/%s is stale; run make generate: %v", apiPage, err)
	}
	for _, field := range []string{"**`minMember`**: integer, required, 1 to 100000.", "**`topology[].sliceSize`**", "**`guarantee`**: map to quantity"} {
		if !strings.Contains(want, field) {
			t.Errorf("the reference has no %s", field)
		}
	}
}

func TestFillRefusesMarksThatMeanNothing(t *testing.T) {
	for _, page := range []string{
		"x " + beginMark + "all plugins" + endOfBegin + " and no end",
		"x " + beginMark + "arguments of unknown" + endOfBegin + endMark,
		"x " + beginMark + "all nodes" + endOfBegin + endMark,
	} {
		if text, err := fill(page); err == nil {
			t.Errorf("%q became %q", page, text)
		}
	}
}
