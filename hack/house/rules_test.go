package house

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// mode is a field that changes what a later read answers. A question is to be a value: what decides about the answer is in what
// asks.
type mode struct {
	// name is that of the field, with its type; fields are those by which it is assigned, in the packages below.
	name   string
	fields []string
	in     []string
}

var (
	engine = []string{"pkg/engine"}
	askers = []string{"pkg/framework", "pkg/engine", "pkg/place", "pkg/victims", "pkg/actions"}
	// readsNeeds are the packages that read what a job needs: pkg/gang computes it, and internal/sources has it computed.
	readsNeeds = append([]string{"pkg/plugins", "internal/cluster", "internal/lifecycle", "internal/report", "internal/scheduler"}, askers...)
)

// modes are those that there are.
var modes = []mode{
	{"Session.grounds", []string{"grounds"}, engine},
}

// computed are fields that are computed where they belong, and set in no package that reads them.
var computed = []mode{
	{"Job.Need", []string{"Need", "Stated", "Present", "Whole", "StartedMinima", "LostMembers", "BelowMinimum"}, readsNeeds},
	{"Job.Need", []string{"MinMember"}, []string{"pkg/framework", "pkg/place", "pkg/victims", "pkg/actions", "pkg/plugins", "internal/report"}},
}

// sets counts how often a file sets each mode, and each field that is computed elsewhere.
func (s *source) sets(found map[string]int) {
	in := func(directories []string) bool {
		return slices.ContainsFunc(directories, func(directory string) bool { return under(s.path, directory) })
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		assigned, ok := node.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for _, left := range assigned.Lhs {
			if entry, ok := left.(*ast.IndexExpr); ok {
				left = entry.X
			}
			selector, ok := left.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			for _, m := range slices.Concat(modes, computed) {
				if slices.Contains(m.fields, selector.Sel.Name) && in(m.in) {
					found[s.path+" sets "+m.name]++
				}
			}
		}
		return true
	})
}

// TestOpenAloneShowsTheAccounting: the accounting of the snapshot is shown for one job at a time, and Ask.open alone says for
// which.
func TestOpenAloneShowsTheAccounting(t *testing.T) {
	opens := 0
	for _, s := range sources(t) {
		if s.test || under(s.path, "pkg/model") {
			continue
		}
		for _, declared := range s.file.Decls {
			function, _ := declared.(*ast.FuncDecl)
			ast.Inspect(declared, func(node ast.Node) bool {
				selector, ok := node.(*ast.SelectorExpr)
				switch {
				case !ok || selector.Sel.Name != "SetViewpoint" && selector.Sel.Name != "ExcludeTerminating":
				case s.path == "pkg/engine/ask.go" && function != nil && function.Name.Name == "open":
					opens++
				default:
					t.Errorf("%s calls %s; ask with an engine.Ask, of which open does", s.path, selector.Sel.Name)
				}
				return true
			})
		}
	}
	if opens != 2 {
		t.Errorf("open shows the accounting in %d calls, want 2", opens)
	}
}

// product are the trees that are released.
var product = []string{"apis", "cmd", "internal", "pkg"}

// mostFields is how many fields a struct has at most; an embedded one counts as one.
const mostFields = 30

// fieldsAtMost are the structs with another maximum, by the directory and name, with the reason.
var fieldsAtMost = map[string]struct {
	most int
	why  string
}{
	"pkg/engine.Session": {20, "what a session reads is to be in the question that is asked"},
	"pkg/model.Job":      {25, "what belongs together of a job is a value of its own"},
	"pkg/topology.Index": {43, "it is one count with its indexes: a pod or a node changes many of them, and all begin again together"},
}

// fields returns how many fields each struct of a file has that has a name.
func (s *source) fields() map[string]int {
	found := map[string]int{}
	ast.Inspect(s.file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			if declared, ok := spec.Type.(*ast.StructType); ok {
				found[path.Dir(s.path)+"."+spec.Name.Name] = declared.Fields.NumFields()
			}
		}
		return true
	})
	return found
}

// TestStructsAreSmall: what has many fields is made of values that have a purpose and methods of their own.
func TestStructsAreSmall(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.written() || !slices.ContainsFunc(product, func(tree string) bool { return under(s.path, tree) }) {
			continue
		}
		for name, n := range s.fields() {
			most := mostFields
			if limit, ok := fieldsAtMost[name]; ok {
				found[name], most = true, limit.most
				if most > mostFields && n <= mostFields {
					t.Errorf("%s has %d fields; it needs no maximum of its own any longer", name, n)
				}
			}
			if n > most {
				t.Errorf("%s has %d fields, %d are the most; make it of values that have a purpose and methods of their own", name, n, most)
			}
		}
	}
	for name, limit := range fieldsAtMost {
		if !found[name] {
			t.Errorf("there is no %s any longer (%s); take it out of the list", name, limit.why)
		}
	}
}

// lastName returns the name at the end of an expression: node of s.node and of nodes[node], empty when there is none.
func lastName(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.IndexExpr:
		return lastName(e.X)
	}
	return ""
}

// amounts are the methods of a node that say what it has left, from the viewpoint of the question that is open.
var amounts = []string{"Free", "Idle", "Unnominated", "Amounts"}

// readsOf counts how often a file reads one of the fields of what has such a name.
func (s *source) readsOf(fields []string, of func(name string) bool) (n int) {
	ast.Inspect(s.file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok && slices.Contains(fields, selector.Sel.Name) && of(lastName(selector.X)) {
			n++
		}
		return true
	})
	return n
}

// callsOf counts how often a file calls one of the functions.
func (s *source) callsOf(functions []string) (n int) {
	ast.Inspect(s.file, func(node ast.Node) bool {
		if call, ok := node.(*ast.CallExpr); ok && slices.Contains(functions, called(call)) {
			n++
		}
		return true
	})
	return n
}

func isNode(name string) bool {
	return name == "n" || strings.Contains(strings.ToLower(name), "node")
}

// isPod reports whether what has the name is a pod. The labels of nodes and of namespaces are no matter of the edge.
func isPod(name string) bool {
	return strings.HasSuffix(strings.ToLower(name), "pod") || name == "sibling"
}

// readsMarks are the packages and files that read marks of a pod when it is read: of its group, of isolated CPUs, and those that
// are kept of it. Everywhere else marks of pods are values.
var readsMarks = []string{
	"internal/sources", "internal/kube", "internal/agent", "pkg/isolated/marks.go",
	"internal/cluster/assume.go", "internal/cluster/isolated.go", "internal/cluster/pod.go", "internal/cluster/podchange.go",
	"internal/cluster/size.go", "internal/cluster/strip.go", "internal/cluster/unreadable.go", "internal/cluster/conflicts.go",
}

// asksMembers are the files of internal/sources that say what a gang needs, of what its members say: they read no marks, either.
var asksMembers = []string{"groups.go", "later.go", "runs.go", "whole.go", "status.go"}

// readers are the functions that read marks of a pod for the edge: to call one above the edge is to read the marks there.
var readers = []string{"isolated.AskedBy", "isolated.AssignedTo"}

// matched are the files that match labels and annotations of pods where they are asked about: by selectors that users write, and
// by keys that an administrator configures.
var matched = map[string]string{
	"pkg/model/budget.go":              "the selector of a budget",
	"pkg/topology/score.go":            "selectors of affinity and spread",
	"pkg/topology/spread.go":           "selectors of spread",
	"pkg/topology/class.go":            "labels that selectors name",
	"pkg/place/terms.go":               "selectors of affinity",
	"pkg/place/classes.go":             "labels that selectors name",
	"pkg/plugins/drf/drf.go":           "the key that its argument names",
	"internal/scheduler/jobs.go":       "the selector of a reader of the list",
	"pkg/plugins/extender/extender.go": "the keys that the configuration of an extender names",
}

// TestRules holds the product, without its tests, to the rules that its syntax shows.
func TestRules(t *testing.T) {
	sets, reads, marks := map[string]int{}, map[string]int{}, map[string]int{}
	for _, s := range sources(t) {
		if s.test || s.written() || !under(s.path, "pkg") && !under(s.path, "internal") {
			continue
		}
		s.sets(sets)
		if n := s.readsOf(amounts, isNode); n > 0 && (under(s.path, "pkg/place") || under(s.path, "pkg/actions")) {
			reads[s.path] = n
		}
		asks := path.Dir(s.path) == "internal/sources" && slices.Contains(asksMembers, path.Base(s.path))
		if !asks && slices.ContainsFunc(readsMarks, func(edge string) bool { return under(s.path, edge) }) {
			continue
		}
		n := s.readsOf([]string{"Labels", "Annotations", "GetLabels", "GetAnnotations"}, isPod) + s.callsOf(readers)
		switch why := matched[s.path]; {
		case why != "" && n == 0:
			t.Errorf("%s reads no label of a pod any longer; take it out of the files that match %s", s.path, why)
		case why == "" && n > 0:
			marks[s.path] = n
		}
	}
	for _, m := range modes {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(sets)), func(place string) bool { return strings.HasSuffix(place, " "+m.name) }) {
			t.Errorf("%s is set nowhere any longer; take it out of the modes", m.name)
		}
	}
	hold(t, "modes", "pass what decides about an answer with the question, in place of a field that a later read goes by", sets)
	hold(t, "amounts", "ask engine.Ask.Free what a node has left for a job, in place of the node", reads)
	hold(t, "marks", "read the label or annotation where the pod is read, below "+strings.Join(readsMarks, ", ")+", and pass on a value", marks)
}
