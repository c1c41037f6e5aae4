package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// qualified finds `package.Name`, `Type.Member` and `package.Type.Member`, with what may follow.
var qualified = regexp.MustCompile("`(\\w+(?:\\.\\w+)+)[^`\\n]*`")

// TestPagesNameWhatIsDeclared wants what pages below docs name in backticks to be declared below pkg or internal: a name by the
// package of that name, a member of a type as a field or method by a package that declares a type of that name.
func TestPagesNameWhatIsDeclared(t *testing.T) {
	known, packages := map[string]bool{}, map[string][]string{} // package.Name, package#Member; the packages of a type
	for _, s := range sources(t) {
		if in := s.file.Name.Name; !s.test && (under(s.path, "pkg") || under(s.path, "internal")) {
			known[in] = true
			ast.Inspect(s.file, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.FuncDecl:
					known[in+map[bool]string{true: ".", false: "#"}[node.Recv == nil]+node.Name.Name] = true
				case *ast.TypeSpec:
					known[in+"."+node.Name.Name] = true
					packages[node.Name.Name] = append(packages[node.Name.Name], in)
				case *ast.ValueSpec:
					for _, name := range node.Names {
						known[in+"."+name.Name] = true
					}
				case *ast.Field:
					for _, name := range node.Names {
						known[in+"#"+name.Name] = true
					}
				}
				return true
			})
		}
	}
	for _, page := range slices.DeleteFunc(pages(t), func(page string) bool { return !under(page, "docs") }) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range qualified.FindAllStringSubmatch(string(text), -1) {
			words := strings.Split(match[1], ".")
			for i, name := range words[1:] {
				of := words[i]
				has := func(in string) bool { return known[in+"#"+name] }
				passes := !ast.IsExported(of) || packages[of] == nil || slices.ContainsFunc(packages[of], has)
				if ast.IsExported(name) && (known[of] && !known[of+"."+name] || !passes) {
					t.Errorf("%s: `%s`: %s does not declare %s", page, match[1], of, name)
				}
			}
		}
	}
}
