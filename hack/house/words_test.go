package house

import (
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// glossary is the page with the words, those in use and those retired.
const glossary = "docs/glossary.md"

// The scopes of a retired word.
const (
	inIdentifiers = "identifier"
	inMessages    = "message"
	inProse       = "prose"
)

// maxComment is how many characters a line of a comment may have.
const maxComment = 130

// retired is a word that is written nowhere in its scopes.
type retired struct {
	word, use string
	scopes    []string
	// whole matches the word, or its plain inflections, in a sentence.
	whole *regexp.Regexp
}

// retiredWords reads the second table of the glossary.
func retiredWords(t *testing.T) []retired {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, glossary))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n## Retired words\n")
	if !found {
		t.Fatalf("%s has no section of retired words", glossary)
	}
	var words []retired
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "-") || strings.TrimSpace(cells[0]) == "word" {
			continue
		}
		word := retired{word: strings.TrimSpace(cells[0]), use: strings.TrimSpace(cells[2])}
		for scope := range strings.SplitSeq(cells[1], ",") {
			scope = strings.TrimSpace(scope)
			if scope != inIdentifiers && scope != inMessages && scope != inProse {
				t.Fatalf("%s: %q has the unknown scope %q", glossary, word.word, scope)
			}
			word.scopes = append(word.scopes, scope)
		}
		word.whole = regexp.MustCompile(`(?i)\b` + strings.ReplaceAll(regexp.QuoteMeta(word.word), " ", `\s+`) + `(s|'s)?\b`)
		words = append(words, word)
	}
	if len(words) < 10 {
		t.Fatalf("%s retires %d words only; is its table still a table?", glossary, len(words))
	}
	return words
}

// parts are the words of an identifier, in lower case: split at capitals, digits and underscores.
func parts(name string) []string {
	var words []string
	start := 0
	flush := func(end int) {
		if end > start {
			words = append(words, strings.ToLower(name[start:end]))
		}
		start = end
	}
	for i, r := range name {
		last, _ := utf8.DecodeLastRuneInString(name[:i])
		next, _ := utf8.DecodeRuneInString(name[i+utf8.RuneLen(r):])
		switch {
		case !unicode.IsLetter(r):
			flush(i)
			start = i + utf8.RuneLen(r)
		case unicode.IsUpper(r) && i > start && (unicode.IsLower(last) || unicode.IsLower(next)):
			flush(i)
		}
	}
	flush(len(name))
	return words
}

// names reports whether an identifier has the word as one of its parts, in the singular or with an s.
func (w retired) names(identifier string) bool {
	return slices.ContainsFunc(parts(identifier), func(part string) bool { return part == w.word || part == w.word+"s" })
}

// findings returns what is wrong with a file, a line each.
func (s *source) findings(words []retired) []string {
	var found []string
	add := func(at token.Pos, w retired, scope string) {
		position := s.set.Position(at)
		found = append(found, s.path+":"+strconv.Itoa(position.Line)+": "+scope+": "+strconv.Quote(w.word)+" is retired; use: "+w.use)
	}
	each := func(scope string, f func(retired)) {
		for _, w := range words {
			if slices.Contains(w.scopes, scope) {
				f(w)
			}
		}
	}
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "// +") { // directives
				continue
			}
			each(inProse, func(w retired) {
				if w.whole.MatchString(comment.Text) {
					add(comment.Pos(), w, inProse)
				}
			})
			for line := range strings.Lines(comment.Text) {
				if utf8.RuneCountInString(line) > maxComment {
					found = append(found, s.at(comment).String()+": a comment line of more than "+strconv.Itoa(maxComment)+" characters")
				}
			}
		}
	}
	ast.Inspect(s.file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			each(inIdentifiers, func(w retired) {
				if w.names(node.Name) {
					add(node.Pos(), w, inIdentifiers)
				}
			})
		case *ast.ImportSpec:
			return false
		case *ast.BasicLit:
			if node.Kind == token.STRING {
				each(inMessages, func(w retired) {
					if w.whole.MatchString(node.Value) {
						add(node.Pos(), w, inMessages)
					}
				})
			}
		}
		return true
	})
	return found
}

// phrases make a sentence hard to read: the exception before the usual case, or a chain of pronouns. The noun is said again, or the
// sentence cut in two.
var phrases = map[string]*regexp.Regexp{
	"but for":           regexp.MustCompile(`(?i)\bbut for\b`),
	"all the same":      regexp.MustCompile(`(?i)\ball the same\b`),
	"for want of":       regexp.MustCompile(`(?i)\bfor (the )?want of\b`),
	"besides":           regexp.MustCompile(`(?i)\bbesides\b`),
	"had ... been":      regexp.MustCompile(`(?i)\bhad (\w+ ){1,2}been\b`),
	"those ... that of": regexp.MustCompile(`(?i)\bthose\b[^.]*\bthat of\b|\bthat of\b[^.]*\bthose\b|\b(those|that) (of|that|whose|in)\b[^.]*\bthose of\b`),
}

// TestPhrases counts them in comments and messages of the product, and in pages.
func TestPhrases(t *testing.T) {
	found := map[string]int{}
	count := func(place, text string) {
		text = strings.Join(strings.Fields(text), " ")
		for phrase, pattern := range phrases {
			if n := len(pattern.FindAllString(text, -1)); n > 0 {
				found[place+" writes "+strconv.Quote(phrase)] += n
			}
		}
	}
	for _, s := range sources(t) {
		if s.test || s.written() || !slices.ContainsFunc([]string{"apis", "cmd", "internal", "pkg"}, func(of string) bool { return under(s.path, of) }) {
			continue
		}
		for _, group := range s.file.Comments {
			count(s.path, group.Text())
		}
		literals(s.file, func(text string) { count(s.path, text) })
	}
	for _, page := range pages(t) {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for paragraph := range strings.SplitSeq(string(text), "\n\n") {
			count(page, paragraph)
		}
	}
	hold(t, "phrases", "say the noun again, or cut the sentence in two; the usual case first, the exception behind it with unless or except", found)
}

// pages are the other texts that people write: documents, stories, charts and scripts.
func pages(t *testing.T) []string {
	t.Helper()
	list := exec.Command("git", "ls-files", "*.md", "*.yaml", "*.yml", "*.sh", "*.mk", "*.tpl", "**/testdata/*", "Dockerfile", "Makefile")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	all := strings.Fields(string(out))
	if len(all) < 50 {
		t.Fatalf("git names %d pages only", len(all))
	}
	return slices.DeleteFunc(all, func(page string) bool {
		return strings.HasPrefix(page, "config/crd/") || strings.Contains(page, "/crds/") || strings.HasSuffix(page, ".go")
	})
}

// TestRetiredWords finds no retired word of the glossary in its scope, and no comment line that is too long.
func TestRetiredWords(t *testing.T) {
	words := retiredWords(t)
	for _, s := range sources(t) {
		if s.written() || s.path == "hack/house/words_test.go" {
			continue
		}
		for _, finding := range s.findings(words) {
			t.Error(finding)
		}
	}
	for _, page := range pages(t) {
		if page == glossary {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			for _, w := range words {
				if slices.Contains(w.scopes, inProse) && w.whole.MatchString(line) {
					t.Errorf("%s:%d: %s: %q is retired; use: %s", page, number, inProse, w.word, w.use)
				}
			}
		}
	}
}

// TestRetiredWordsAreFound plants a word in each scope.
func TestRetiredWordsAreFound(t *testing.T) {
	planted, err := parse("pkg/planted/planted.go", []byte("// Package planted tells whether nobody waits.\npackage planted\n\n"+
		"func askNobody() string { return \"somebody waits\" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	found := strings.Join(planted.findings(retiredWords(t)), "\n")
	for _, want := range []string{`prose: "tells whether"`, `prose: "nobody"`, `identifier: "nobody"`, `message: "somebody"`} {
		if !strings.Contains(found, want) {
			t.Errorf("%s is not found:\n%s", want, found)
		}
	}
	for identifier, want := range map[string][]string{
		"HTTPServer": {"http", "server"}, "askNobody": {"ask", "nobody"}, "test_DICE2": {"test", "dice"}, "x": {"x"},
	} {
		if got := parts(identifier); !slices.Equal(got, want) {
			t.Errorf("the parts of %s are %q, not %q", identifier, got, want)
		}
	}
}
