package app

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var rewrite = flag.Bool("rewrite", false, "write the list of flags into docs/configuration.md")

// TestThePageListsTheFlags holds the list in docs/configuration.md to the flags; `make generate` writes it by
// go test ./cmd/tutti-scheduler/app -run '^TestThePageListsTheFlags$' -rewrite.
func TestThePageListsTheFlags(t *testing.T) {
	const begin, end = "<!-- flags -->\n", "<!-- end of flags -->\n"
	page := filepath.Join("..", "..", "..", "docs", "configuration.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no place for the list: %q, %q", page, begin, end)
	}
	var list strings.Builder
	New().Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		given := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			given = " (default `" + f.DefValue + "`)"
		}
		fmt.Fprintf(&list, "- `--%s`%s: %s\n", f.Name, given, f.Usage)
	})
	want := before + begin + "\n" + list.String() + "\n" + end + after
	if *rewrite {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("the list of flags in %s is stale; run make generate", page)
	}
}
