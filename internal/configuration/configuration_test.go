package configuration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/argument"
	"github.com/tutti-sched/tutti/pkg/engine"
)

// offline is one registry for all tests.
func offline(t *testing.T) *engine.Registry {
	t.Helper()
	catalogue, err := Offline(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// TestCheck plays testdata/*.txt: each case is a file, and the messages about it; "fine" when it is valid. Run with -rewrite
// to record the results.
func TestCheck(t *testing.T) {
	catalogue := offline(t)
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "check" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			warnings, err := Lint(catalogue, "scheduler.yaml", []byte(d.Input))
			var out strings.Builder
			for _, w := range warnings {
				fmt.Fprintf(&out, "warning: %s\n", w)
			}
			if err != nil {
				fmt.Fprintln(&out, err)
			} else {
				fmt.Fprintln(&out, "fine")
			}
			return out.String()
		})
	})
}

// every is each argument of the list, and its fields.
func every(list argument.List) argument.List {
	var all argument.List
	for _, l := range flatten(list, "") {
		all = append(all, l.Argument)
	}
	return all
}

func TestEverythingIsExplained(t *testing.T) {
	for _, e := range Entries() {
		if e.Summary == "" || strings.HasSuffix(e.Summary, ".") {
			t.Errorf("%s %s: summary %q, want half a sentence", e.Kind, e.Name, e.Summary)
		}
		for _, a := range every(e.Arguments) {
			if a.Help == "" || strings.HasSuffix(a.Help, ".") || strings.ContainsAny(a.Help+a.Range(), "|\n") {
				t.Errorf("%s %s: argument %s: help %q, range %q", e.Kind, e.Name, a.Name, a.Help, a.Range())
			}
		}
		if text, err := Explain(e.Name); err != nil || !strings.HasPrefix(text, e.Kind+" "+e.Name+": ") {
			t.Errorf("%s %s: explained with %v as\n%s", e.Kind, e.Name, err, text)
		}
	}
	if _, err := Explain("nodeorde"); err == nil || !strings.Contains(err.Error(), "nodeorder") {
		t.Errorf("an unknown name: %v", err)
	}
}

// TestWhatIsDeclaredIsWhatIsRead gives every single value that is not nested, with its default, to its owner: an argument
// that is not read would be unknown, and a default must not be refused.
func TestWhatIsDeclaredIsWhatIsRead(t *testing.T) {
	catalogue := offline(t)
	owners := map[string]func(*config.Reader) error{}
	for _, maker := range catalogue.Actions {
		owners[maker.Name] = func(r *config.Reader) error { _, err := maker.New(r); return err }
	}
	for _, maker := range catalogue.Plugins {
		owners[maker.Name] = func(r *config.Reader) error { _, err := maker.New(r); return err }
	}
	for _, e := range Entries() {
		for _, a := range e.Arguments {
			if a.Default == "" {
				continue
			}
			given := map[string]string{a.Name: a.Default}
			if score, of, found := strings.Cut(a.Name, "."); found && (of == "resources" || of == "shape") {
				given[score+".weight"] = "1" // they are refused for a score that is turned off
			}
			reader := config.NewArguments(e.Name, given).Reader()
			err := owners[e.Name](reader)
			if err = config.Join(err, reader.Finish()); err != nil {
				t.Errorf("%s: %s: %q: %v", e.Name, a.Name, a.Default, err)
			}
		}
	}
}

// TestWhatIsReadIsDeclared: every argument that an owner reads is declared. evict is a removed one, which is refused.
func TestWhatIsReadIsDeclared(t *testing.T) {
	catalogue := offline(t)
	for _, e := range Entries() {
		reader := config.NewArguments(e.Name, map[string]string{"no such argument": "1"}).Reader()
		for _, maker := range catalogue.Plugins {
			if maker.Name == e.Name {
				_, _ = maker.New(reader) // its messages about missing arguments do not matter here
			}
		}
		for _, maker := range catalogue.Actions {
			if maker.Name == e.Name {
				_, _ = maker.New(reader)
			}
		}
		for _, name := range reader.Asked() {
			if name != "evict" && !slices.ContainsFunc(e.Arguments, func(a argument.Argument) bool { return a.Name == name }) {
				t.Errorf("%s reads %s, which it does not declare", e.Name, name)
			}
		}
	}
}

// TestExamplesInTheDocumentationAreGood reads every configuration that docs contain as a whole, and topologies with the
// built-in configuration.
func TestExamplesInTheDocumentationAreGood(t *testing.T) {
	catalogue := offline(t)
	builtin, err := os.ReadFile(filepath.Join("..", "..", "apis", "config", "v1alpha1", "default.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, pattern := range []string{"*.md", "plugins/*.md"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "docs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		for _, file := range files {
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range strings.Split(string(page), "```yaml\n")[1:] {
				whole, _, _ := strings.Cut(block, "```")
				for text := range strings.SplitSeq("\n"+whole, "\n---\n") {
					switch {
					case strings.Contains(text, "name: joblimit"):
						continue // examples/joblimit tests its own
					case strings.Contains("\n"+text, "\ntiers:"):
					case strings.Contains("\n"+text, "\ntopologies:"): // to be added to the built-in configuration
						text = string(builtin) + "\n" + text
					default:
						continue
					}
					seen++
					if warnings, err := Lint(catalogue, filepath.Base(file), []byte(text)); err != nil || len(warnings) > 0 {
						t.Errorf("%s: %v, warnings %v\n%s", file, err, warnings, text)
					}
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d examples were found, want at least 10", seen)
	}
}
