package house

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// targets are the make targets that workflows run, and what runs them in `make test`, or why it does not. `make lint` lets
// actionlint check the files as such.
var targets = map[string]string{
	"cosign":    "not run: it builds a program of another project, in minutes",
	"e2e":       "not run: it builds other versions of Kubernetes and other projects; its tests are those that make test runs on one version",
	"faults":    "not run: it takes hours; make test runs the same tests with fewer kills",
	"fuzz":      "not run: it looks for new inputs by time; make test plays what it has found",
	"lint":      "make test runs it",
	"operators": "not run: it builds each operator, in minutes; make test runs what they write",
	"release":   "TestARelease (lab/e2e) makes the same for one architecture; the whole compiles for six systems",
	"test":      "it is what runs this",
	"vulncheck": "not run: it asks vuln.go.dev",
}

// actions are what workflows use, other than make.
var actions = []string{"actions/checkout", "actions/setup-go", "actions/upload-artifact"}

// workflow is what matters here of a file of GitHub Actions.
type workflow struct {
	Jobs map[string]struct {
		Strategy struct{ Matrix map[string][]string }
		Env      map[string]string
		Steps    []struct {
			Uses, Run string
			Env       map[string]string
		}
	}
}

// runs returns the commands of the workflow, each with every value of its job's matrix.
func (w workflow) runs() (commands []string) {
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			all := []string{step.Run}
			for name, values := range job.Strategy.Matrix {
				var each []string
				for _, command := range all {
					for _, value := range values {
						each = append(each, strings.ReplaceAll(command, "${{ matrix."+name+" }}", value))
					}
				}
				all = each
			}
			commands = append(commands, all...)
		}
	}
	slices.Sort(commands)
	return slices.DeleteFunc(slices.Compact(commands), func(command string) bool { return command == "" })
}

// TestWorkflowsRunMake: a workflow runs make targets that exist, and nothing else, so that what a forge runs can be run
// anywhere. Each target is run by `make test`, too, or the list says why not.
func TestWorkflowsRunMake(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range workflows(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var w workflow
		if err := yaml.Unmarshal(text, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		commands := w.runs()
		if len(commands) == 0 {
			t.Errorf("%s runs nothing", file)
		}
		for _, command := range commands {
			if wrong := unmade(t, command); wrong != "" {
				t.Errorf("%s: %q %s", filepath.Base(file), command, wrong)
			}
			if words := strings.Fields(command); len(words) > 1 {
				seen[words[1]] = true
			}
		}
		for _, job := range w.Jobs {
			for _, step := range job.Steps {
				if name, _, _ := strings.Cut(step.Uses, "@"); step.Uses != "" && !slices.Contains(actions, name) {
					t.Errorf("%s uses %s, which is none of %q", filepath.Base(file), step.Uses, actions)
				}
			}
		}
		for _, uses := range regexp.MustCompile(`(?m)uses: .*$`).FindAllString(string(text), -1) {
			if !regexp.MustCompile(`@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(uses) {
				t.Errorf("%s: %q: pin the commit, and say its version behind it", filepath.Base(file), uses)
			}
		}
	}
	for target := range targets {
		if !seen[target] {
			t.Errorf("no workflow runs make %s", target)
		}
	}
}

func workflows(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("workflows: %q, %v", files, err)
	}
	return files
}

// unmade says why a command is not one that a workflow may run; empty means that it is.
func unmade(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(command, "${GITHUB_REF_NAME#v}", "0.1.0"))
	if len(words) < 2 || words[0] != "make" || strings.ContainsAny(command, ";&|\n") {
		return "is no make target"
	}
	if targets[words[1]] == "" {
		return "is a target of which hack/house/forge_test.go does not say what runs it in make test, or why not"
	}
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run"}, words[1:]...)...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("fails: %v: %s", err, out)
	}
	return ""
}

func TestUnmade(t *testing.T) {
	targets["removed"] = "it was there once"
	t.Cleanup(func() { delete(targets, "removed") })
	for command, want := range map[string]string{
		"make lint": "",
		"make release VERSION=${GITHUB_REF_NAME#v}": "",
		"go test ./...":            "is no make target",
		"make lint && rm -r build": "is no make target",
		"make demo":                "is a target of which",
		"make removed":             "fails",
	} {
		if got := unmade(t, command); got != want && (want == "" || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	w := workflow{}
	if err := yaml.Unmarshal([]byte("jobs: {a: {strategy: {matrix: {k: [1.35.4, 1.36.3]}}, steps: [{run: 'make e2e K8S=${{ matrix.k }}'}]}}"), &w); err != nil {
		t.Fatal(err)
	}
	if got := w.runs(); !slices.Equal(got, []string{"make e2e K8S=1.35.4", "make e2e K8S=1.36.3"}) {
		t.Errorf("with a matrix it runs %q", got)
	}
}

// placeholders returns the variables of release.env.example, none of which has a value there.
func placeholders(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "release.env.example"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if !found || value != "" {
			t.Errorf("release.env.example: %q is no variable without a value", line)
		}
		names = append(names, name)
	}
	return names
}

// TestTheReleaseHasAllVariables: the workflow that publishes sets each, and something reads each.
func TestTheReleaseHasAllVariables(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	want := placeholders(t)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(w.Jobs["release"].Env)); !slices.Equal(got, want) {
		t.Errorf("release.yml sets %q, and release.env.example names %q", got, want)
	}
	for _, name := range want {
		cmd := exec.CommandContext(t.Context(), "git", "grep", "--untracked", "-qw", name, "--", ".", ":!release.env.example", ":!.github/workflows", ":!docs")
		cmd.Dir = root
		if err := cmd.Run(); err != nil {
			t.Errorf("nothing reads %s, which release.env.example names", name)
		}
	}
}

// stated are the files that say whom to write to, where to push, and where things are.
var stated = []string{
	".github/*", ".github/*/*", "*.md", "release.env.example", "hack/release/*", "hack/make/release.mk", "docs/release.md", "docs/install.md", "charts/tutti/Chart.yaml",
}

// hosts are those that links may lead to: of other projects, and of the forge's documentation. The module of this project is a
// name that Go needs; it is in every import.
var hosts = regexp.MustCompile(`^(github\.com/(tutti-sched(/tutti)?|kubeflow|ray-project|kubernetes-sigs)(/|$)|` +
	`(docs\.github\.com|docs\.sigstore\.dev|kind\.sigs\.k8s\.io|krew\.sigs\.k8s\.io|slsa\.dev|keepachangelog\.com|semver\.org|artifacthub\.io|` +
	`www\.contributor-covenant\.org|token\.actions\.githubusercontent\.com)(/|$))`)

// inventions are what stands for a name that the project does not have, by what it is.
var inventions = map[string]*regexp.Regexp{
	"an address":        regexp.MustCompile(`[\w.+-]+@[\w-]+(\.[\w-]+)*\.[a-z]{2,}\b`),
	"a person or team":  regexp.MustCompile(`(^|[ (*])@[A-Za-z][\w/-]+`),
	"a placeholder":     regexp.MustCompile(`\b(TODO|TBD|FIXME|CHANGEME|XXX)\b|(?i:\byour[-_](org|name|company|registry|email)\b)|<[A-Z][A-Z_]+>`),
	"a registry's host": regexp.MustCompile(`\b(ghcr\.io|quay\.io|docker\.io|gcr\.io|[\w-]+\.pkg\.dev)\b`),
}

// invented says what a text states that the project does not have, a line each.
func invented(text string, names []string) (found []string) {
	for number, line := range strings.Split(text, "\n") {
		add := func(what, is string) { found = append(found, fmt.Sprintf("line %d: %q is %s", number+1, what, is)) }
		for is, pattern := range inventions {
			for _, what := range pattern.FindAllString(line, -1) {
				add(strings.TrimSpace(what), is)
			}
		}
		for _, link := range regexp.MustCompile(`https?://[^\s)"'>]+`).FindAllString(line, -1) {
			if _, to, _ := strings.Cut(strings.TrimRight(link, ".,"), "://"); !hosts.MatchString(to) {
				add(link, "a link to a host that hack/house/forge_test.go does not list")
			}
		}
		for _, name := range regexp.MustCompile("`[A-Z]+_(CONTACT|CHANNEL|ID|URL|NAME|EMAIL|TEAM)`").FindAllString(line, -1) {
			if !slices.Contains(names, strings.Trim(name, "`")) {
				add(name, "a placeholder that release.env.example does not name")
			}
		}
	}
	return found
}

// TestNothingIsInvented: a person, an address, a domain or a registry that the project does not have stands in
// release.env.example, as a variable without a value, and nowhere else.
func TestNothingIsInvented(t *testing.T) {
	names := placeholders(t)
	read := 0
	for _, pattern := range stated {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a folder
			}
			read++
			for _, what := range invented(string(text), names) {
				t.Errorf("%s, %s", strings.TrimPrefix(file, root+"/"), what)
			}
		}
	}
	if read < 15 {
		t.Errorf("read %d files only", read)
	}
	for text, want := range map[string]int{
		"write to security@tutti.dev": 1, "* @tutti-sched/maintainers": 1, "push to ghcr.io/tutti": 1, "see https://tutti.dev/docs": 1,
		"`CODE_CONTACT` answers": 1, "TODO": 1, "`SECURITY_CONTACT` of https://docs.github.com/en": 0, "uses: actions/checkout@0123 # v1.2.3": 0,
		"go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3": 0,
	} {
		if got := invented(text, names); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
}
