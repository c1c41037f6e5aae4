package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPageIsWritten compares docs/metrics.md with the table.
func TestPageIsWritten(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != markdown() {
		t.Error(`docs/metrics.md is not what the table says; run "make generate"`)
	}
}
