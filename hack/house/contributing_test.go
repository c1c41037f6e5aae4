package house

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of import rules into CONTRIBUTING.md")

// What stands around the table in CONTRIBUTING.md.
const (
	tableBegin = "<!-- import rules: written by hack/house -->\n"
	tableEnd   = "<!-- end of import rules -->\n"
)

// TestContributingShowsTheImportRules: the table there is the one that the rules make.
func TestContributingShowsTheImportRules(t *testing.T) {
	page := filepath.Join(root, "CONTRIBUTING.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegin)
	_, after, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		t.Fatalf("CONTRIBUTING.md has no place for the table of import rules: %q, %q", tableBegin, tableEnd)
	}
	want := before + tableBegin + "\n" + rulesTable() + "\n" + tableEnd + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("the table of import rules in CONTRIBUTING.md is out of date; write it with `go test ./hack/house -run Contributing -update`")
	}
}

func rulesTable() string {
	var b strings.Builder
	b.WriteString("| package | may import, of ours | and |\n|---|---|---|\n")
	for _, r := range rules {
		var ours, others []string
		for _, path := range r.ours {
			if path == "*" {
				ours = append(ours, "anything but `cmd`")
				continue
			}
			ours = append(ours, "`"+below(path)+"`")
		}
		if r.client {
			others = append(others, "clients")
		}
		if r.kubernetes {
			others = append(others, "k8s.io/kubernetes")
		}
		b.WriteString("| `" + below(r.of) + "` | " + strings.Join(ours, ", ") + " | " + strings.Join(others, ", ") + " |\n")
	}
	return b.String()
}

// below writes a path of a rule that ends in a slash, which is for what is below it, with a star.
func below(path string) string {
	if strings.HasSuffix(path, "/") {
		return path + "*"
	}
	return path
}
