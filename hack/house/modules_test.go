package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var requirement = regexp.MustCompile(`(?m)^\s+(?:(\S+\.\S+) (v\S+)|(\S+) => \S+ (v\S+))(?: // indirect)?$`)

// versions returns the version of every module that a go.mod requires; a replacement's comes before the requirement's.
func versions(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	required, replaced := map[string]string{}, map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		if m[3] != "" {
			replaced[m[3]] = m[4]
		} else {
			required[m[1]] = m[2]
		}
	}
	for module := range required {
		if version, ok := replaced[module]; ok {
			required[module] = version
		}
	}
	if len(required) < 20 {
		t.Fatalf("%s: found %d requirements only", file, len(required))
	}
	return required
}

// TestOneSetOfVersions: with one module at another version, client-go and all that imports it are compiled once for the
// product and once more for the control plane of the lab. decisions/0033.
func TestOneSetOfVersions(t *testing.T) {
	product := versions(t, "go.mod")
	for module, version := range versions(t, "lab/go.mod") {
		if ours, both := product[module]; both && ours != version {
			t.Errorf("%s is %s in go.mod and %s in lab/go.mod; run \"go get %s@%s\" and \"go mod tidy\"", module, ours, version, module, version)
		}
	}
}

// TestOthersImportTheAPIWithoutReplacements: a replacement counts in the main module alone, so a module that others import can
// have none.
func TestOthersImportTheAPIWithoutReplacements(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "apis/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "replace") || strings.Contains(string(text), "k8s.io/kubernetes") {
		t.Error("apis/go.mod replaces a module, or requires k8s.io/kubernetes, which needs replacements")
	}
}

// TestBootstrapImportsNoModule: the lab's first program compiles before it can show any progress.
func TestBootstrapImportsNoModule(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if s.test || !strings.HasPrefix(s.path, "lab/cmd/lab/") && !strings.HasPrefix(s.path, "lab/binaries/") {
			continue
		}
		seen++
		for _, imported := range s.file.Imports {
			path := strings.Trim(imported.Path.Value, `"`)
			if strings.Contains(path, ".") && path != module+"lab/binaries" {
				t.Errorf("%s imports %s; only the standard library is allowed", s.at(imported), path)
			}
		}
	}
	if seen == 0 {
		t.Error("found no file of the lab's first program")
	}
}
