package house

import (
	"go/ast"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// firstWord is the identifier that a comment begins with, if it does.
var firstWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*\b`)

// misnamed returns the name that a comment begins with in place of one of those it documents; empty when it does not. A comment
// that begins with a capital letter may be a sentence, unless it is strict or the word can only be a name.
func misnamed(names []*ast.Ident, doc *ast.CommentGroup, strict bool) string {
	word := firstWord.FindString(doc.Text())
	if word == "" || len(names) == 0 || slices.ContainsFunc(names, func(name *ast.Ident) bool { return name.Name == word }) {
		return ""
	}
	if strict || word[0] >= 'a' && word[0] <= 'z' || strings.IndexFunc(word[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' }) > 0 {
		return word
	}
	return ""
}

// misnamedComments lists the comments of a file that begin with another name than that of what they document: what a renaming
// leaves behind.
func (s *source) misnamedComments() (found []string) {
	check := func(doc *ast.CommentGroup, strict bool, names ...*ast.Ident) {
		if word := misnamed(names, doc, strict); word != "" {
			found = append(found, s.at(doc).String()+": the comment of "+names[0].Name+" begins with "+word)
		}
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			check(node.Doc, !s.test, node.Name)
		case *ast.Field:
			names := node.Names
			if name := jsonName(node); name != nil && under(s.path, "apis/scheduling") {
				names = []*ast.Ident{name}
			}
			check(node.Doc, false, names...)
		case *ast.GenDecl:
			for _, spec := range node.Specs {
				doc := node.Doc
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					if spec.Doc != nil || len(node.Specs) > 1 {
						doc = spec.Doc
					}
					check(doc, false, spec.Name)
				case *ast.ValueSpec:
					if spec.Doc != nil || len(node.Specs) > 1 {
						doc = spec.Doc
					}
					check(doc, false, spec.Names...)
				}
			}
		}
		return true
	})
	return found
}

// jsonName is the name of a field in JSON, nil when it has none: kubectl explain shows the comment of the field under that name.
func jsonName(field *ast.Field) *ast.Ident {
	if field.Tag == nil {
		return nil
	}
	name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
	if name == "" {
		return nil
	}
	return &ast.Ident{Name: name, NamePos: field.Pos()}
}

// TestFieldsOfTheAPIBeginWithTheirNames fails for a field of the API that kubectl explain would show under another name than its
// comment says, or without any.
func TestFieldsOfTheAPIBeginWithTheirNames(t *testing.T) {
	seen := 0
	for _, s := range sources(t) {
		if s.test || !under(s.path, "apis/scheduling") {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if !ok {
				return true
			}
			if name := jsonName(field); name != nil && name.Name != "items" && !(name.Name == "metadata" && field.Doc == nil) {
				seen++
				if first := firstWord.FindString(field.Doc.Text()); first != name.Name {
					t.Errorf("%s: the comment of %s begins with %q", s.at(field), name.Name, first)
				}
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("found no field of the API")
	}
}

// TestCommentsNameWhatTheyDocument fails for a comment that a renaming has left behind.
func TestCommentsNameWhatTheyDocument(t *testing.T) {
	for _, s := range sources(t) {
		if s.written() {
			continue
		}
		for _, finding := range s.misnamedComments() {
			t.Error(finding)
		}
	}
}

func TestMisnamedCommentsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"// old does it.\nfunc newName() {}":                                                  1,
		"// newName does it.\nfunc newName() {}":                                              0,
		"type t struct {\n\t// theOld is it.\n\tthing int\n}":                                 1,
		"type t struct {\n\t// What it is.\n\tthing int\n}":                                   0,
		"type t struct {\n\t// a and b are both.\n\ta, b int\n}":                              0,
		"// The colours.\nconst (\n\t// red is red.\n\tblue = 1\n\t// Green.\n\tgreen = 2\n)": 1,
		"// oldType is it.\ntype newType int":                                                 1,
	} {
		s, err := parse("a.go", []byte("package a\n\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if found := s.misnamedComments(); len(found) != want {
			t.Errorf("%s\nfound %q, want %d", text, found, want)
		}
	}
}
