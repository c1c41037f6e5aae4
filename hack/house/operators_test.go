package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// operatorEntry is an entry of the list of operators: the operator, and how it was tested.
	operatorEntry = regexp.MustCompile(`(?ms)^- \*\*\[[^]]*\]\(https://([^)]*)\)(?:[^\n]|\n  )*?\*Tested:\*\s+(real\s+controller\s+(v\S+)|played)$`)
	// toolPackage is the program that a module of the lab builds.
	toolPackage = regexp.MustCompile(`(?m)^tool (\S+)$`)
	// required is a module at a version.
	required = regexp.MustCompile(`(?m)^\s*(?:require )?(\S+\.\S+/\S+) (v\S+)(?: // indirect)?$`)
)

// TestThePageOfOperatorsSaysWhichRan: an entry says "real controller" and a version where the lab has a module that builds that
// version, and there is such an entry for each of these modules.
func TestThePageOfOperatorsSaysWhichRan(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/operators.md"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{} // by operator: the versions of its entries
	for _, entry := range operatorEntry.FindAllStringSubmatch(string(page), -1) {
		if entry[3] != "" { // its own controller ran
			said[entry[1]] = append(said[entry[1]], entry[3])
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "lab/operators/modules/*/go.mod"))
	if err != nil || len(files) == 0 {
		t.Fatalf("found no module of an operator: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tool := toolPackage.FindStringSubmatch(string(text))
		if tool == nil {
			t.Errorf("%s names no tool", file)
			continue
		}
		built := ""
		for _, m := range required.FindAllStringSubmatch(string(text), -1) {
			if under(tool[1], m[1]) {
				built = m[2]
			}
		}
		row := ""
		for link := range said {
			if under(strings.Replace(tool[1], "sigs.k8s.io/", "github.com/kubernetes-sigs/", 1), link) {
				row = link
			}
		}
		other := func(version string) bool { return version != built }
		if built == "" || row == "" || slices.ContainsFunc(said[row], other) {
			t.Errorf("docs/operators.md has %q as the versions of %s that ran, and the lab builds %q", said[row], tool[1], built)
		}
		delete(said, row)
	}
	for link, versions := range said {
		t.Errorf("docs/operators.md says that %s %s ran; no module of the lab builds it", link, versions)
	}
}
