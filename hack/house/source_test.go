package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// source is one parsed file of ours.
type source struct {
	// path is relative to the repository's root, with slashes.
	path string
	test bool
	file *ast.File
	set  *token.FileSet
}

func (s *source) at(node ast.Node) token.Position {
	position := s.set.Position(node.Pos())
	position.Filename = s.path
	return position
}

// functions returns every function declaration.
func (s *source) functions() (all []*ast.FuncDecl) {
	for _, decl := range s.file.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			all = append(all, function)
		}
	}
	return all
}

// sources parses all Go files that people write, the generated ones left out.
func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && path != root || name == "apis/client" || name == "bin" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := parse(name, text)
		if err == nil {
			all = append(all, parsed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("found no Go files")
	}
	return all
}

func parse(name string, text []byte) (*source, error) {
	s := &source{path: name, test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet()}
	var err error
	s.file, err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// written reports whether the file says itself that a program wrote it.
func (s *source) written() bool { return ast.IsGenerated(s.file) }
