package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// reasonsPage is where users and operators look a reason up, and autoscalingPage where they look up for which of them autoscalers
// add nodes.
const (
	reasonsPage     = "docs/reasons.md"
	autoscalingPage = "docs/autoscaling.md"
)

// TestOperatorsFindEveryReason wants the pages to name every code of a refusal once, and none that does not exist.
func TestOperatorsFindEveryReason(t *testing.T) {
	codes := reasonCodes(t)
	if len(codes) < 10 {
		t.Fatalf("pkg/model has only the codes %q", codes)
	}
	for page, row := range map[string]string{
		reasonsPage:     "(?m)^### `([A-Z][A-Za-z]+)`$",
		autoscalingPage: "(?m)^\\| `([A-Z][A-Za-z]+)` \\| (?:yes|no)\\b[^|]* \\|$",
	} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]int{}
		for _, row := range regexp.MustCompile(row).FindAllStringSubmatch(string(text), -1) {
			shown[row[1]]++
		}
		for _, code := range codes {
			if shown[code] != 1 {
				t.Errorf("%s: it has %d places for %s, want 1", page, shown[code], code)
			}
			delete(shown, code)
		}
		for _, code := range slices.Sorted(maps.Keys(shown)) {
			t.Errorf("%s: no refusal has the code %s", page, code)
		}
	}
}

// reasonCodes are the values of the constants of type Code in pkg/model, sorted.
func reasonCodes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pkg/model/refusal.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		if kind, is := spec.Type.(*ast.Ident); !is || kind.Name != "Code" {
			return true
		}
		for _, value := range spec.Values {
			literal, is := value.(*ast.BasicLit)
			if !is {
				t.Fatalf("a code of pkg/model is no literal: %v", spec.Names)
			}
			code, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	slices.Sort(codes)
	return codes
}
