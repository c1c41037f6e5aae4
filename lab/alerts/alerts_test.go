// Package alerts lets the chart's alerts fire and clear, with promtool: in the rules as helm renders them.
package alerts

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/tutti-sched/tutti/lab/binaries"
)

// promtool is the program, which `make promtool` takes from Debian's package prometheus.
func promtool(t *testing.T, root string) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	path := filepath.Join(root, "build", "bin", "promtool")
	if _, err := os.Stat(path); err != nil {
		t.Skip(`promtool is not here: "make promtool" takes it from Debian's package prometheus`)
	}
	return path
}

// run runs a program in a folder.
func run(ctx context.Context, t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+dir, "HELM_CONFIG_HOME="+dir, "HELM_DATA_HOME="+dir)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, text)
	}
	return string(text)
}

func TestAlertsFireAndClear(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	tool, dir := promtool(t, root), t.TempDir()
	helm, err := binaries.Ensure(t.Context(), "", t.Output(), binaries.Helm)
	if err != nil {
		t.Fatal(err)
	}
	rendered := run(t.Context(), t, dir, helm.Path(binaries.Helm), "template", "tutti", filepath.Join(root, "charts", "tutti"),
		"--namespace", "tutti-system", "--kube-version", binaries.DefaultKubernetes, "--show-only", "templates/alerts.yaml",
		"--set", "global.imageRegistry=registry.invalid,metrics.alerts.enabled=true")
	var rule struct{ Spec any }
	if err := yaml.Unmarshal([]byte(rendered), &rule); err != nil {
		t.Fatal(err)
	}
	rules, err := yaml.Marshal(rule.Spec)
	if err != nil {
		t.Fatal(err)
	}
	stories, err := os.ReadFile(filepath.Join("testdata", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"rules.yaml": rules, "stories.yaml": stories} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(run(t.Context(), t, dir, tool, "check", "rules", "rules.yaml"))
	t.Log(run(t.Context(), t, dir, tool, "test", "rules", "stories.yaml"))
	assertComplete(t, root, string(rules), string(stories))
}

// assertComplete wants each alert to fire in a story, and to have a section in the page that its runbook_url leads to.
func assertComplete(t *testing.T, root, rules, stories string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, found := range regexp.MustCompile(`(?m)^  - alert: (\w+)$`).FindAllStringSubmatch(rules, -1) {
		names = append(names, found[1])
	}
	if len(names) < 10 {
		t.Fatalf("the alerts are %q", names)
	}
	for _, name := range names {
		if !strings.Contains(stories, `alertname="`+name+`"`) {
			t.Errorf("%s fires in no story", name)
		}
		if !strings.Contains(string(page), "\n### "+name+"\n") {
			t.Errorf("docs/operations.md has no section %s", name)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^### (Tutti\w+)$`).FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(names, found[1]) {
			t.Errorf("docs/operations.md has a section of the alert %s, which is not there", found[1])
		}
	}
}
