package house

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of import rules into CONTRIBUTING.md, and lower the lists of exceptions")

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
	want := before + tableBegin + "\n" + rulesTable(t) + "\n" + tableEnd + after
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

// rulesTable has the packages that there are, with what each may import of those, and what it imports beyond that for now.
func rulesTable(t *testing.T) string {
	read, err := os.ReadFile(exceptionsFile)
	if err != nil {
		t.Fatal(err)
	}
	now := map[string][]string{} // by the first rule that names the importer
	for place := range excepted(string(read), "imports") {
		importer, rest, _ := strings.Cut(place, " ")
		imported := "`" + rest[strings.LastIndex(rest, " ")+1:] + "`"
		if i := slices.IndexFunc(rules, func(r rule) bool { return under(importer, r.of) }); i >= 0 && !slices.Contains(now[rules[i].of], imported) {
			now[rules[i].of] = append(now[rules[i].of], imported)
		}
	}
	var b strings.Builder
	b.WriteString("| package | may import, of ours | and | for now also |\n|---|---|---|---|\n")
	for _, r := range rules {
		if !exists(r.of) {
			continue
		}
		var ours, others []string
		for _, path := range r.ours {
			switch {
			case path == "*":
				ours = append(ours, "anything but `cmd`")
			case exists(path):
				ours = append(ours, "`"+below(path)+"`")
			}
		}
		if r.client {
			others = append(others, "clients")
		}
		if r.kubernetes {
			others = append(others, "k8s.io/kubernetes")
		}
		if r.others {
			others = append(others, "objects of other projects")
		}
		if r.manager {
			others = append(others, "controller-runtime")
		}
		slices.Sort(now[r.of])
		b.WriteString("| `" + below(r.of) + "` | " + strings.Join(ours, ", ") + " | " + strings.Join(others, ", ") + " | " + strings.Join(now[r.of], ", ") + " |\n")
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
