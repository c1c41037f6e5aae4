package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module     = "github.com/tutti-sched/tutti/"
	kubernetes = "k8s.io/kubernetes/"
)

// rule says what packages below a path may import.
type rule struct {
	// of is the path of a package, and of all below it; the first rule that matches holds.
	of string
	// ours are the paths, within the module, that it may import from, besides itself; "*" is everything but cmd.
	ours []string
	// kubernetes reports whether it may import kube-scheduler's own code.
	kubernetes bool
	// client reports whether it may import clients and informers.
	client bool
	// others reports whether it may read objects of other projects, which have no type of ours.
	others bool
	// manager reports whether it may import controller-runtime, whose manager serves health and metrics of the scheduler.
	manager bool
}

// rules are those of the house as it is to be, with packages that are not there yet. What breaks them today is in exceptions.txt.
var rules = []rule{
	{of: "apis/client", client: true},
	{of: "apis"},
	{of: "pkg/isolated"},
	{of: "pkg/shares"},
	{of: "pkg/argument"},
	{of: "internal/metrics"},
	{of: "internal/version"},
	{of: "internal/logging"},
	{of: "pkg/model", ours: []string{"pkg/isolated"}},
	{of: "pkg/gang", ours: []string{"pkg/model"}},
	{of: "pkg/topology", ours: []string{"pkg/model"}},
	{of: "pkg/framework", ours: []string{"pkg/model", "pkg/isolated", "pkg/argument", "apis/config"}},
	{of: "pkg/engine", ours: []string{"pkg/framework", "pkg/topology", "pkg/model", "pkg/isolated", "apis/config"}},
	{of: "pkg/place", ours: []string{"pkg/engine", "pkg/framework", "pkg/model"}},
	{of: "pkg/victims", ours: []string{"pkg/place", "pkg/engine", "pkg/framework", "pkg/model"}},
	{of: "pkg/plugins/predicates", ours: []string{"pkg/framework", "pkg/model", "pkg/argument", "pkg/topology"}, kubernetes: true},
	{of: "pkg/plugins/nodeorder", ours: []string{"pkg/framework", "pkg/model", "pkg/argument", "pkg/topology"}, kubernetes: true},
	{of: "pkg/plugins/proportion", ours: []string{"pkg/framework", "pkg/model", "pkg/shares"}},
	{of: "pkg/plugins/isolcpu", ours: []string{"pkg/framework", "pkg/model", "pkg/argument", "pkg/isolated"}},
	// The two registries list what lies below them and nothing else; below them no package imports its sibling.
	{of: "pkg/plugins/", ours: []string{"pkg/framework", "pkg/model", "pkg/argument"}},
	{of: "pkg/actions/", ours: []string{"pkg/victims", "pkg/place", "pkg/engine", "pkg/framework", "pkg/model", "pkg/argument"}},
	{of: "pkg/plugins", ours: []string{"pkg/plugins/", "pkg/framework", "pkg/model", "pkg/topology", "apis/config"}, client: true},
	{of: "pkg/actions", ours: []string{"pkg/actions/", "pkg/engine", "pkg/framework", "pkg/model", "apis/config"}},
	{of: "internal/sources", ours: []string{"pkg/gang", "pkg/model", "apis"}, others: true},
	{of: "internal/kube", ours: []string{"pkg/model"}, kubernetes: true, client: true},
	{of: "internal/cluster", ours: []string{"internal/sources", "internal/kube", "pkg/gang", "pkg/model", "pkg/isolated", "apis"},
		kubernetes: true, client: true, others: true},
	{of: "internal/commit", ours: []string{"pkg/model", "apis"}, client: true},
	// What a handler of the container runtime's may reach has no client: the runtime does not wait for an API server.
	{of: "internal/agent/publish", ours: []string{"pkg/isolated"}, client: true},
	{of: "internal/agent/", ours: []string{"pkg/isolated", "internal/metrics"}},
	{of: "internal/agent", ours: []string{"pkg/isolated"}},
	{of: "internal/debugapi", ours: []string{"pkg/engine", "pkg/framework", "pkg/model", "pkg/isolated", "internal/commit", "apis"}},
	{of: "internal/lease"},
	{of: "internal/backoff", ours: []string{"internal/commit", "pkg/model"}},
	{of: "internal/report", ours: []string{"internal/sources", "pkg/gang", "internal/backoff", "internal/commit", "pkg/model", "apis"}},
	{of: "internal/lifecycle", ours: []string{"pkg/gang", "internal/backoff", "internal/commit", "pkg/model", "apis"}},
	{of: "internal/telemetry", ours: []string{"internal/debugapi", "internal/metrics", "internal/version", "pkg/engine", "pkg/framework", "internal/commit", "pkg/model"}},
	// Who checks the scheduler's decisions takes no code from it, only the decisions.
	{of: "test/invariants", ours: []string{"pkg/model", "apis"}},
	{of: "test", ours: []string{"*"}, client: true, others: true},
	{of: "internal/scheduler", ours: []string{"internal/", "pkg/", "apis"}, client: true},
	{of: "internal/rehearse", ours: []string{"internal/scheduler", "internal/cluster", "internal/sources", "internal/commit", "internal/debugapi", "pkg/engine",
		"pkg/model", "pkg/isolated", "apis"}, client: true},
	{of: "internal/capture", ours: []string{"internal/scheduler", "internal/cluster", "internal/lifecycle", "internal/backoff", "internal/configuration",
		"internal/rehearse", "pkg/engine", "pkg/model"}},
	{of: "internal/configuration", ours: []string{"pkg/engine", "pkg/framework", "pkg/plugins", "pkg/actions", "internal/cluster", "internal/kube",
		"pkg/model", "pkg/argument", "internal/metrics", "apis"}, client: true},
	{of: "cmd/tutti-scheduler", ours: []string{"*"}, client: true, manager: true},
	{of: "cmd", ours: []string{"*"}, client: true, others: true},
	{of: "hack/document", ours: []string{"internal/configuration", "apis/config"}},
	// What others may write, with what they may use.
	{of: "examples/podgroups", ours: []string{"apis/client", "apis/scheduling"}, client: true},
	{of: "examples", ours: []string{"cmd/tutti-scheduler/app", "pkg/framework", "pkg/model", "pkg/argument", "apis/config"}, manager: true},
	{of: "hack/metricsdoc", ours: []string{"internal/metrics"}},
	{of: "hack"},
}

const controllerRuntime = "sigs.k8s.io/controller-runtime"

// exists reports whether there is such a package, or one below it.
func exists(path string) bool {
	_, err := os.Stat(filepath.Join(root, path))
	return err == nil
}

// under reports whether a path is the other or below it; "x/" is below x only.
func under(path, other string) bool {
	if strings.HasSuffix(other, "/") {
		return strings.HasPrefix(path, other)
	}
	return path == other || strings.HasPrefix(path, other+"/")
}

// broken returns what is wrong with an import, empty when nothing is.
func broken(importer, imported string) string {
	i := slices.IndexFunc(rules, func(r rule) bool { return under(importer, r.of) })
	if i < 0 {
		return "has no rule yet about what it may import"
	}
	r := rules[i]
	ours, is := strings.CutPrefix(imported, module)
	switch {
	case !is:
		return r.foreign(imported)
	case under(ours, "cmd") && !sameTree(importer, ours) && !slices.Contains(r.ours, ours):
		return "imports cmd, which no package may"
	case under(ours, "test") && !under(importer, "test"):
		return "imports test, which is for tests alone"
	case sameTree(importer, ours), slices.Contains(r.ours, "*"):
		return ""
	}
	if !slices.ContainsFunc(r.ours, func(allowed string) bool { return under(ours, allowed) }) {
		return "may not import"
	}
	return ""
}

func (r rule) foreign(imported string) string {
	switch {
	case under(imported, strings.TrimSuffix(kubernetes, "/")) && !r.kubernetes:
		return "may not import kube-scheduler's code"
	case under(imported, "k8s.io/client-go/kubernetes") && !r.client, under(imported, "k8s.io/client-go/rest") && !r.client:
		return "may not import a client"
	case under(imported, "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured") && !r.others:
		return "may not read objects of other projects"
	case under(imported, controllerRuntime) && imported != controllerRuntime+"/pkg/manager/signals" && !r.manager:
		return "may not import controller-runtime" // decisions/0091
	}
	return ""
}

// sameTree reports whether both are parts of one package tree, such as internal/agent and internal/agent/hooks.
func sameTree(a, b string) bool {
	depth := 2
	if under(a, "pkg/plugins/") || under(a, "pkg/actions/") {
		depth = 3
	}
	if under(a, "apis") {
		depth = 1
	}
	first := func(path string) string {
		parts := strings.Split(path, "/")
		return strings.Join(parts[:min(depth, len(parts))], "/")
	}
	return first(a) == first(b)
}

// modules are those with rules, by folder, each with the path that its packages have in place of one below the root.
var modules = map[string][2]string{
	".": {module, ""}, "apis": {module, ""},
	"examples/joblimit": {"example.com/joblimit", "examples/joblimit"}, "examples/podgroups": {"example.com/podgroups", "examples/podgroups"},
}

func TestImports(t *testing.T) {
	found := map[string]int{}
	for folder, path := range modules {
		list := exec.Command("go", "list", "-e", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
		list.Dir = filepath.Join(root, folder)
		out, err := list.Output()
		if err != nil {
			t.Fatalf("go list in %s: %v", folder, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if folder == "." && len(lines) < 5 {
			t.Fatalf("go list names %d packages only", len(lines))
		}
		for _, line := range lines {
			words := strings.Fields(line)
			rest, ours := strings.CutPrefix(words[0], path[0])
			if !ours {
				t.Fatalf("go list in %s names %s", folder, words[0])
			}
			for _, imported := range words[1:] {
				if why := broken(path[1]+rest, imported); why != "" {
					found[path[1]+rest+" "+why+" "+strings.TrimPrefix(imported, module)]++
				}
			}
		}
	}
	hold(t, "imports", "what it needs of that package is passed to it, or belongs below both; the table is in CONTRIBUTING.md", found)
}

// TestImportRules holds the rules themselves to cases of the table in CONTRIBUTING.md.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		allowed            bool
	}{
		{"pkg/model", module + "apis/scheduling/v1alpha1", false},
		{"pkg/model", module + "pkg/framework", false},
		{"pkg/model", "k8s.io/client-go/kubernetes", false},
		{"pkg/framework", module + "pkg/model", true},
		{"pkg/framework", module + "internal/cluster", false},
		{"pkg/plugins/gang", module + "pkg/framework", true},
		{"pkg/plugins/gang", module + "pkg/plugins/priority", false},
		{"pkg/plugins/gang", module + "internal/cluster", false},
		{"pkg/plugins/gang", "k8s.io/kubernetes/pkg/scheduler/framework", false},
		{"pkg/plugins/predicates", "k8s.io/kubernetes/pkg/scheduler/framework", true},
		{"pkg/plugins/predicates", module + "pkg/topology", true},
		{"pkg/plugins/gang", module + "pkg/topology", false},
		{"pkg/topology", "k8s.io/kubernetes/pkg/scheduler/framework", false},
		{"pkg/topology", "k8s.io/client-go/kubernetes", false},
		{"pkg/plugins", module + "pkg/plugins/gang", true},
		{"pkg/actions/allocate", module + "pkg/plugins/gang", false},
		{"internal/cluster", module + "pkg/framework", false},
		{"internal/cluster", module + "internal/kube", true},
		{"internal/kube", module + "internal/cluster", false},
		{"internal/cluster", module + "internal/commit", false},
		{"internal/commit", module + "internal/cluster", false},
		{"internal/agent", module + "pkg/isolated", true},
		{"internal/agent/hooks", module + "internal/agent/enforce", true},
		{"internal/agent/hooks", "k8s.io/client-go/kubernetes", false},
		{"internal/agent/publish", "k8s.io/client-go/kubernetes", true},
		{"internal/agent", module + "pkg/model", false},
		{"pkg/plugins/gang", module + "pkg/argument", true},
		{"pkg/plugins/gang", module + "apis/config/v1alpha1", false},
		{"pkg/argument", module + "apis/config/v1alpha1", false},
		{"internal/scheduler", module + "internal/cluster", true},
		{"internal/scheduler", module + "internal/report", true},
		{"internal/report", module + "internal/scheduler", false},
		{"internal/report", "k8s.io/client-go/kubernetes", false},
		{"internal/report", "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", false},
		{"internal/sources", "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", true},
		{"internal/debugapi", module + "internal/commit", true},
		{"internal/debugapi", module + "internal/cluster", false},
		{"pkg/engine", module + "pkg/framework", true},
		{"pkg/framework", module + "pkg/engine", false},
		{"pkg/place", module + "pkg/victims", false},
		{"pkg/plugins/gang", module + "pkg/engine", false},
		{"pkg/actions/reclaim", module + "pkg/actions/preempt", false},
		{"pkg/actions/reclaim", module + "pkg/victims", true},
		{"internal/cluster", module + "internal/sources", true},
		{"internal/sources", module + "internal/cluster", false},
		{"internal/scheduler", module + "test/scenario", false},
		{"internal/scheduler", module + "cmd/tutti-scheduler", false},
		{"cmd/kubectl-tutti", module + "cmd/tutti-scheduler", false},
		{"apis/config/v1alpha1", module + "pkg/model", false},
		{"internal/lease", module + "internal/commit", false},
		{"internal/lease", "k8s.io/client-go/kubernetes", false},
		{"test/invariants", module + "pkg/model", true},
		{"test/invariants", module + "pkg/engine", false},
		{"test/simulation", module + "test/invariants", true},
		{"cmd/tutti-scheduler/app", controllerRuntime + "/pkg/manager", true},
		{"cmd/tutti-agent", controllerRuntime + "/pkg/manager/signals", true},
		{"cmd/tutti-agent", controllerRuntime, false},
		{"internal/configuration", controllerRuntime + "/pkg/client", false},
		{"pkg/unheard/of", module + "pkg/model", false},
	} {
		if why := broken(c.importer, c.imported); (why == "") != c.allowed {
			t.Errorf("%s imports %s: allowed is %v, the rule says %q", c.importer, c.imported, c.allowed, why)
		}
	}
}
