package thrift_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPageShowsThisPlugin holds the code on the page to the code that is compiled and run here.
func TestPageShowsThisPlugin(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "writing-a-plugin.md"))
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("thrift.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
		t.Error("docs/writing-a-plugin.md does not show thrift.go as it is")
	}
}
