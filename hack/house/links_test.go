package house

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

var (
	// link is a link or an image of Markdown, without a title.
	link = regexp.MustCompile(`\[(?:[^][]|\[[^]]*\])*\]\(([^)\s]+)\)`)
	// codeSpan is text between backquotes.
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// prose returns the lines of a page of Markdown, and blanks those that are in fenced blocks.
func prose(text string) []string {
	lines := strings.Split(text, "\n")
	fenced := false
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			lines[i] = ""
		} else if fenced {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the names by which GitHub lets a link lead to the headings of a page: in lower case, without punctuation, a
// hyphen for each space. The second of a name has -1 behind it.
func anchors(lines []string) map[string]bool {
	all := map[string]bool{}
	for _, line := range lines {
		level := len(line) - len(strings.TrimLeft(line, "#"))
		if level == 0 || level > 6 || len(line) == level || line[level] != ' ' {
			continue
		}
		heading := link.ReplaceAllStringFunc(line[level+1:], func(text string) string { return text[:strings.LastIndex(text, "](")] })
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(heading))
		unique := name
		for i := 1; all[unique]; i++ {
			unique = name + "-" + strconv.Itoa(i)
		}
		all[unique] = true
	}
	return all
}

// deadLinks returns the links of a page that lead to no file of the repository, or to no heading of a page. read returns a file
// by its path in the repository.
func deadLinks(page, text string, read func(name string) (string, error)) []string {
	var dead []string
	whole := codeSpan.ReplaceAllStringFunc(strings.Join(prose(text), "\n"), func(code string) string { return strings.Repeat("\n", strings.Count(code, "\n")) })
	for _, found := range link.FindAllStringSubmatchIndex(whole, -1) {
		target := whole[found[2]:found[3]]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		name := page
		if file != "" {
			name = path.Join(path.Dir(page), file)
		}
		linked, err := read(name)
		if err != nil || anchor != "" && strings.HasSuffix(name, ".md") && !anchors(prose(linked))[anchor] {
			dead = append(dead, page+":"+strconv.Itoa(1+strings.Count(whole[:found[0]], "\n"))+": "+target)
		}
	}
	return dead
}

// TestLinks: each relative link of a page leads to a file of the repository and, where it names one, to a heading of it.
func TestLinks(t *testing.T) {
	read := func(name string) (string, error) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return "", err
		}
		text, err := os.ReadFile(file)
		return string(text), err
	}
	for _, page := range pages(t) {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		text, err := read(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, dead := range deadLinks(page, text, read) {
			t.Errorf("%s: no such file or heading", dead)
		}
	}
}

// TestDeadLinksAreFound plants some.
func TestDeadLinksAreFound(t *testing.T) {
	files := map[string]string{"docs/b.md": "# B's `code`\n\n## Same\n\n## Same\n\n```\n# none\n```\n", "x.go": ""}
	const text = "# A\n[b](b.md#bs-code) [`x`](../x.go) [same](b.md#same-1) [a](#a) [out](https://example.com/no.md) ![i](b.md)\n" +
		"[gone](c.md) [no heading](b.md#none) `[code](c.md)` [here](#gone) [third](b.md#same-2) [over\ntwo](d.md)\n```\n[fenced](c.md)\n```\n"
	files["docs/a.md"] = text
	read := func(name string) (string, error) {
		if text, is := files[name]; is {
			return text, nil
		}
		return "", os.ErrNotExist
	}
	got := strings.Join(deadLinks("docs/a.md", text, read), " ")
	if want := "docs/a.md:3: c.md docs/a.md:3: b.md#none docs/a.md:3: #gone docs/a.md:3: b.md#same-2 docs/a.md:3: d.md"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestPagesAreFound: from the index of the documentation each page of it is two links away at most.
func TestPagesAreFound(t *testing.T) {
	const index = "docs/README.md"
	reached := map[string]bool{index: true}
	follow := func(page string) {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(strings.Join(prose(string(text)), "\n"), -1) {
			file, _, _ := strings.Cut(found[1], "#")
			if strings.HasSuffix(file, ".md") && !strings.Contains(file, "://") {
				reached[path.Join(path.Dir(page), file)] = true
			}
		}
	}
	follow(index)
	for _, page := range slices.Collect(maps.Keys(reached)) {
		follow(page)
	}
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs/") && strings.HasSuffix(page, ".md") && !reached[page] {
			t.Errorf("%s is more than two links away from %s", page, index)
		}
	}
}

// maxRow is how many characters a row of a table may have. A longer one is a list, or a section with a heading.
const maxRow = 200

// TestTableRows counts the rows of tables that are longer.
func TestTableRows(t *testing.T) {
	found := map[string]int{}
	for _, page := range pages(t) {
		if !strings.HasSuffix(page, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range prose(string(text)) {
			if strings.HasPrefix(line, "|") && utf8.RuneCountInString(line) > maxRow {
				found[page]++
			}
		}
	}
	hold(t, "rows", "make a list or sections of the table, or say less: a row has at most "+strconv.Itoa(maxRow)+" characters", found)
}
