package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// TestRulesOfTheCRDs: a real API server, of whichever version, says of each object that test/crd creates what the code of the
// pinned one does.
func TestRulesOfTheCRDs(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"podgroups", "queues"} {
		t.Run(kind, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, "test", "crd", "testdata", kind+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			cases := strings.Split(string(text), "\ncreate\n")[1:]
			for _, one := range cases {
				manifest, answer, _ := strings.Cut(one, "\n----\n")
				answer, _, _ = strings.Cut(answer, "\n\n")
				tryRule(t, manifest, strings.Split(strings.TrimSpace(answer), "\n"))
			}
			if len(cases) < 10 {
				t.Errorf("%d cases", len(cases))
			}
		})
	}
}

// tryRule creates an object without storing it, and wants the answer: ok, or what is wrong, in the last words of each line. A
// server drops the status of what is created.
func tryRule(t *testing.T, manifest string, want []string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
		t.Fatalf("%v:\n%s", err, manifest)
	}
	if object.GetKind() == "PodGroup" && object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	err := env.Client.Create(t.Context(), object, client.DryRunAll)
	want = slices.DeleteFunc(want, func(line string) bool { return line == "ok" || strings.HasPrefix(line, "status") })
	if len(want) == 0 {
		if err != nil {
			t.Errorf("%v:\n%s", err, manifest)
		}
		return
	}
	for _, line := range want {
		words := line[strings.LastIndex(line, ": ")+2:]
		onlyNewer := strings.Contains(words, "with format int32") // older API servers check the maximum alone
		if err == nil || !onlyNewer && !strings.Contains(err.Error(), words) {
			t.Errorf("want %q, got %v:\n%s", words, err, manifest)
		}
	}
}
