package house

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestPublicNamesMentionNoInternalType: another module can name every type that an exported name of pkg/ has in its
// declaration.
func TestPublicNamesMentionNoInternalType(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || !under(s.path, "pkg") || strings.Contains(s.path, "/internal/") {
			continue
		}
		for _, mention := range internalMentions(s.file) {
			t.Errorf("%s: %s mentions %s, which no other module can import", s.at(mention.at), mention.of, mention.what)
		}
	}
}

func TestInternalMentions(t *testing.T) {
	const head = "package p\n\nimport (\n\"" + module + "internal/x\"\nother \"" + module + "internal/y\"\n\"" + module + "pkg/z\"\n)\n"
	for code, want := range map[string]string{
		"func F(a *x.T) {}":                            "F x.T",
		"func F() map[string][]other.T { return nil }": "F other.T",
		"func F(a z.T) { var b x.T }":                  "",
		"func f(a x.T) {}":                             "",
		"func (r R) M(a x.T) {}":                       "M x.T",
		"func (r r) M(a x.T) {}":                       "",
		"type T struct { F x.T }":                      "T x.T",
		"type T struct { f x.T; g other.T }":           "",
		"type T struct { x.T }":                        "T x.T",
		"type T interface { M(x.T) }":                  "T x.T",
		"type T interface { m(x.T) }":                  "",
		"type T = x.T":                                 "T x.T",
		"type T[P x.T] struct{}":                       "T x.T",
		"type t struct { F x.T }":                      "",
		"var V x.T":                                    "V x.T",
		"var V = x.F()":                                "V x.F",
		"var v x.T":                                    "",
	} {
		parsed, err := parse("p.go", []byte(head+code))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, mention := range internalMentions(parsed.file) {
			got = mention.of + " " + mention.what
		}
		if got != want {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}

// mention is where the declaration of an exported name mentions an internal one.
type mention struct {
	at       ast.Node
	of, what string
}

// internalMentions returns those of a file: in signatures, in exported fields and methods, and in the values of variables.
func internalMentions(file *ast.File) (mentions []mention) {
	internal := internalImports(file)
	for _, decl := range file.Decls {
		for _, declared := range exported(decl) {
			ast.Inspect(declared.node, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.StructType:
					n.Fields.List = exportedFields(n.Fields.List)
				case *ast.InterfaceType:
					n.Methods.List = exportedFields(n.Methods.List)
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && internal[x.Name] {
						mentions = append(mentions, mention{at: n, of: declared.name, what: x.Name + "." + n.Sel.Name})
					}
				}
				return true
			})
		}
	}
	return mentions
}

// internalImports returns the names by which a file knows internal packages.
func internalImports(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !strings.HasPrefix(imported, module+"internal/") {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	return names
}

// declaration is an exported name and what declares it.
type declaration struct {
	name string
	node ast.Node
}

// exported returns what a declaration exports, without the bodies of functions.
func exported(decl ast.Decl) (all []declaration) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || receiverExported(d.Recv.List[0].Type)) {
			all = append(all, declaration{d.Name.Name, d.Type})
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, declaration{s.Name.Name, s})
				}
			case *ast.ValueSpec:
				if i := slices.IndexFunc(s.Names, (*ast.Ident).IsExported); i >= 0 {
					all = append(all, declaration{s.Names[i].Name, s})
				}
			}
		}
	}
	return all
}

func receiverExported(receiver ast.Expr) bool {
	found := false
	ast.Inspect(receiver, func(node ast.Node) bool {
		name, ok := node.(*ast.Ident)
		found = found || ok && name.IsExported()
		return true
	})
	return found
}

// exportedFields returns the exported and the embedded ones.
func exportedFields(fields []*ast.Field) (some []*ast.Field) {
	for _, field := range fields {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			some = append(some, field)
		}
	}
	return some
}
