package house

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// namedTests are the variables of hack/make/test.mk that name tests, and the packages in which the targets run these.
var namedTests = map[string][]string{
	"CONCURRENT": {"test/scenario", "test/simulation"},
	"LASTING":    {"internal/scheduler", "internal/cluster"},
	"LONGEST":    {"lab/e2e"},
	"WAITING":    {"lab/e2e"},
}

// TestTestsThatTargetsNameAreRun: a target leaves out tests by name, in whatever package they are, and runs those names in some
// packages alone. So each name is that of one test, there.
func TestTestsThatTargetsNameAreRun(t *testing.T) {
	packages := map[string][]string{} // by the name of a test
	for _, s := range sources(t) {
		for _, function := range s.functions() {
			if name := function.Name.Name; s.test && function.Recv == nil && strings.HasPrefix(name, "Test") && ast.IsExported(name) {
				packages[name] = append(packages[name], path.Dir(s.path))
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "hack/make/test.mk"))
	if err != nil {
		t.Fatal(err)
	}
	for variable, want := range namedTests {
		line := regexp.MustCompile(`(?m)^` + variable + ` := ((?:.*\\\n)*.*)$`).FindSubmatch(text)
		if line == nil {
			t.Errorf("hack/make/test.mk has no variable %s", variable)
			continue
		}
		for _, name := range strings.Fields(strings.ReplaceAll(string(line[1]), "\\\n", " ")) {
			if found := packages[name]; len(found) != 1 || !slices.Contains(want, found[0]) {
				t.Errorf("%s names %s, which is in %q, want it once, in one of %q", variable, name, found, want)
			}
		}
	}
}
