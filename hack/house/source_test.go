package house

import (
	"go/ast"
	"go/parser"
	"go/scanner"
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
	// code tells, by line, whether there is anything but comment and space on it.
	code map[int]bool
}

func (s *source) at(node ast.Node) token.Position {
	position := s.set.Position(node.Pos())
	position.Filename = s.path
	return position
}

func (s *source) codeLines(from, to int) int {
	n := 0
	for line := from; line <= to; line++ {
		if s.code[line] {
			n++
		}
	}
	return n
}

// functions yields every function declaration with its length in lines of code.
func (s *source) functions() map[*ast.FuncDecl]int {
	lengths := map[*ast.FuncDecl]int{}
	for _, decl := range s.file.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			lengths[function] = s.codeLines(
				s.set.Position(function.Pos()).Line, s.set.Position(function.End()).Line)
		}
	}
	return lengths
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
	s := &source{path: name, test: strings.HasSuffix(name, "_test.go"), set: token.NewFileSet(), code: map[int]bool{}}
	var err error
	if s.file, err = parser.ParseFile(s.set, name, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	lines := token.NewFileSet().AddFile(name, -1, len(text))
	var words scanner.Scanner
	words.Init(lines, text, nil, 0)
	for {
		pos, word, literal := words.Scan()
		if word == token.EOF {
			return s, nil
		}
		first := lines.Position(pos).Line
		for line := first; line <= first+strings.Count(literal, "\n"); line++ {
			if literal != "\n" || word != token.SEMICOLON {
				s.code[line] = true
			}
		}
	}
}

// written reports whether the file says itself that a program wrote it.
func (s *source) written() bool { return ast.IsGenerated(s.file) }
