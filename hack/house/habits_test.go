package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackageComments wants a paragraph above every package that is not made of tests alone.
func TestPackageComments(t *testing.T) {
	paragraph := map[string]int{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		directory := path.Dir(s.path)
		paragraph[directory] = max(paragraph[directory], len(s.file.Doc.Text()))
	}
	for directory, length := range paragraph {
		if length < 80 {
			t.Errorf("%s: the package comment has %d characters; say what the package is for and what it is not", directory, length)
		}
	}
}

// maxUnlisted is how many files a package may have, doc.go included, tests and generated files not, without a list of them.
const maxUnlisted = 8

// TestReadingOrder wants doc.go of a larger package to name each other file, and no file that does not exist. It does not check
// that the order is one to read them in.
func TestReadingOrder(t *testing.T) {
	files, listed := map[string][]string{}, map[string]string{}
	for _, s := range sources(t) {
		if s.test || s.written() {
			continue
		}
		directory, file := path.Split(s.path)
		files[directory] = append(files[directory], file)
		if file == "doc.go" {
			listed[directory] = s.file.Doc.Text()
		}
	}
	for directory, names := range files {
		if len(names) <= maxUnlisted {
			continue
		}
		known := fileName.FindAllString(listed[directory], -1)
		for _, name := range names {
			if name != "doc.go" && !slices.Contains(known, name) {
				t.Errorf("%sdoc.go: %s is not among the files in reading order", directory, name)
			}
		}
		for _, name := range known {
			if !slices.Contains(names, name) {
				t.Errorf("%sdoc.go: there is no file %s", directory, name)
			}
		}
	}
}

var fileName = regexp.MustCompile(`\w+\.go\b`)

// TestExportedNames wants a sentence above every exported name.
func TestExportedNames(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.written() {
			continue
		}
		for _, decl := range s.file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				if decl.Name.IsExported() && ofExported(decl) && decl.Doc == nil {
					t.Errorf("%s: %s has no comment", s.at(decl), decl.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range decl.Specs {
					if name := undocumented(decl, spec); name != "" {
						t.Errorf("%s: %s has no comment", s.at(spec), name)
					}
				}
			}
		}
	}
}

func ofExported(function *ast.FuncDecl) bool {
	if function.Recv == nil {
		return true
	}
	of := function.Recv.List[0].Type
	for {
		switch receiver := of.(type) {
		case *ast.StarExpr:
			of = receiver.X
		case *ast.IndexExpr:
			of = receiver.X
		case *ast.IndexListExpr:
			of = receiver.X
		case *ast.Ident:
			return receiver.IsExported()
		default:
			return true
		}
	}
}

func undocumented(group *ast.GenDecl, spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() && group.Doc == nil && spec.Doc == nil {
			return spec.Name.Name
		}
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			if name.IsExported() && group.Doc == nil && spec.Doc == nil && spec.Comment == nil {
				return name.Name
			}
		}
	}
	return ""
}

var (
	poorPackage = regexp.MustCompile(`^(utils?|commons?|helpers?|types|base|misc)$|_`)
	poorType    = regexp.MustCompile(`.(Info|Fn|Manager|Helper|Util|Utils|Common|Base)$`)
)

func TestNames(t *testing.T) {
	for _, s := range sources(t) {
		if name := strings.TrimSuffix(s.file.Name.Name, "_test"); poorPackage.MatchString(name) {
			t.Errorf("%s: package %s is not named for what it does", s.path, name)
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.TypeSpec); ok && poorType.MatchString(spec.Name.Name) {
				t.Errorf("%s: the type's name %s is none of the trade's words", s.at(spec), spec.Name.Name)
			}
			return true
		})
	}
}

// waiting are the calls that wait for nothing in particular.
var waiting = []string{"time.Sleep", "time.After", "time.Tick"}

// skipsInSilence reports whether a call leaves a test out without a reason that can be read where it is called.
func skipsInSilence(name string, call *ast.CallExpr) bool {
	switch _, method, _ := strings.Cut(name, "."); method {
	case "SkipNow":
		return true
	case "Skip", "Skipf":
		if len(call.Args) == 0 {
			return true
		}
		reason, is := call.Args[0].(*ast.BasicLit)
		return !is || reason.Kind != token.STRING || len(reason.Value) < 15
	}
	return false
}

func TestSkipsHaveReasons(t *testing.T) {
	for text, silent := range map[string]bool{
		`t.SkipNow()`: true, `t.Skip()`: true, `b.Skip("later")`: true, `t.Skip(err)`: true,
		`t.Skip("the kernel has no accounts by CPU")`: false, `t.Skipf("no accounts by CPU: %v", err)`: false, `words.Next("x")`: false,
	} {
		expression, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		call := expression.(*ast.CallExpr)
		if got := skipsInSilence(called(call), call); got != silent {
			t.Errorf("%s: in silence is %t", text, got)
		}
	}
}

// clocks are the calls that read a clock of their own; one is passed in instead.
var clocks = []string{"time.Now", "time.Since", "time.Until"}

// edges are the files that may read the machine's clock, each with its reason.
var edges = map[string]string{
	"internal/commit/client.go": "a context's deadline is a time of the machine's clock",
}

func TestCalls(t *testing.T) {
	for _, s := range sources(t) {
		if s.written() {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := called(call)
			inside := (strings.HasPrefix(s.path, "pkg/") || strings.HasPrefix(s.path, "internal/")) && !s.test &&
				!under(s.path, "cmd/tutti-scheduler/app") && edges[s.path] == ""
			switch {
			case skipsInSilence(name, call):
				t.Errorf("%s: %s without a reason", s.at(call), name)
			case slices.Contains(waiting, name):
				t.Errorf("%s: calls %s", s.at(call), name)
			case inside && slices.Contains(clocks, name):
				t.Errorf("%s: calls %s; a clock is passed in", s.at(call), name)
			case name == "panic" && !s.test && path.Base(s.path) != "verify.go":
				t.Errorf("%s: panics outside verify mode", s.at(call))
			}
			return true
		})
	}
}

func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.Ident:
		return function.Name
	case *ast.SelectorExpr:
		if of, ok := function.X.(*ast.Ident); ok {
			return of.Name + "." + function.Sel.Name
		}
	}
	return ""
}

// TestForms looks for what is written nowhere: init functions, empty interfaces by their old name, notes to oneself.
func TestForms(t *testing.T) {
	note := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, s := range sources(t) {
		if s.written() {
			continue
		}
		for _, function := range s.functions() {
			if function.Name.Name == "init" && function.Recv == nil {
				t.Errorf("%s: init functions hide what happens at start", s.at(function))
			}
		}
		for _, group := range s.file.Comments {
			if note.MatchString(group.Text()) {
				t.Errorf("%s: a note to oneself", s.at(group))
			}
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			if empty, ok := node.(*ast.InterfaceType); ok && len(empty.Methods.List) == 0 {
				t.Errorf("%s: the empty interface is written any", s.at(empty))
			}
			return true
		})
	}
}

// TestPackageState allows package-level variables that nothing can change in earnest: errors, compiled patterns, arrays,
// embedded files and the like, given their value where they are declared.
func TestPackageState(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.written() {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR || embeds(group) {
				continue
			}
			for _, spec := range group.Specs {
				if spec := spec.(*ast.ValueSpec); spec.Names[0].Name != "_" && len(spec.Values) == 0 {
					t.Errorf("%s: package-level state %s", s.at(spec), spec.Names[0].Name)
				}
			}
		}
	}
}

func embeds(group *ast.GenDecl) bool {
	return group.Doc != nil && slices.ContainsFunc(group.Doc.List, func(comment *ast.Comment) bool {
		return strings.HasPrefix(comment.Text, "//go:embed ")
	})
}
