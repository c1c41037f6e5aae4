package house

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const invariantsPage = "docs/invariants.md"

var (
	invariantNumber = regexp.MustCompile(`\b[IQTD][0-9]{1,2}\b`)
	invariantRow    = regexp.MustCompile(`(?m)^\| ([IQTD][0-9]{1,2}) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	inBackticks     = regexp.MustCompile("`([^`]+)`")
	// reported finds the number in what a judge says: the whole first argument of violated, or the beginning of an error.
	reported = regexp.MustCompile(`^"(?:invariant )?([IQTD][0-9]{1,2})(?:"$|:)`)
)

// judges is what the tree says of invariants, by number or by name. A name is that of a function, behind the path of its package.
type judges struct {
	names   map[string][]string            // by function: the numbers in its comment and its literals
	files   map[string][]string            // by function: the numbers in its file
	reports map[string][]string            // by number: the functions of test/invariants, test/simulation and test/scenario that report it
	planted map[string][]string            // by number: the files of test/simulation with such a fault
	in      map[string]string              // by function: its file
	said    map[string]string              // by number: a place that names it
	stories func(action, name string) bool // whether there is such a file of stories
}

func numbersIn(text string) []string { return invariantNumber.FindAllString(text, -1) }

// literals calls f with each string literal below a node.
func literals(node ast.Node, f func(string)) {
	ast.Inspect(node, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, `"`) {
			f(literal.Value)
		}
		return true
	})
}

func findJudges(t *testing.T) *judges {
	j := &judges{
		names: map[string][]string{}, files: map[string][]string{}, reports: map[string][]string{}, planted: map[string][]string{},
		in: map[string]string{}, said: map[string]string{},
		stories: func(action, name string) bool {
			_, err := os.Stat(filepath.Join(root, "pkg/actions", action, "testdata", name+".txt"))
			return err == nil
		},
	}
	for _, s := range sources(t) {
		if under(s.path, "pkg") || under(s.path, "internal") || under(s.path, "test") {
			j.read(s)
		}
	}
	return j
}

func (j *judges) read(s *source) {
	directory := path.Dir(s.path)
	judge := directory == "test/invariants" || directory == "test/simulation" || directory == "test/scenario"
	var all []string
	literals(s.file, func(text string) { all = append(all, numbersIn(text)...) })
	for _, group := range s.file.Comments {
		all = append(all, numbersIn(group.Text())...)
	}
	for _, number := range all {
		j.said[number] = s.path
	}
	for _, function := range s.functions() {
		name := directory + "." + function.Name.Name
		j.names[name] = append(j.names[name], numbersIn(function.Doc.Text())...)
		j.files[name], j.in[name] = append(j.files[name], all...), s.path
		literals(function, func(text string) {
			j.names[name] = append(j.names[name], numbersIn(text)...)
			if match := reported.FindStringSubmatch(text); match != nil && judge && !s.test {
				j.reports[match[1]] = append(j.reports[match[1]], name)
			}
		})
	}
	ast.Inspect(s.file, func(node ast.Node) bool { // {what is planted, its number, how it is played}
		fault, ok := node.(*ast.CompositeLit)
		if !ok || directory != "test/simulation" || !s.test || len(fault.Elts) != 3 {
			return true
		}
		if literal, ok := fault.Elts[1].(*ast.BasicLit); ok && invariantNumber.MatchString(literal.Value) {
			number := strings.Trim(literal.Value, `"`)
			j.planted[number] = append(j.planted[number], s.path)
		}
		return true
	})
}

// findings returns what is wrong with the page.
func (j *judges) findings(page string) (found []string) {
	add := func(words ...string) { found = append(found, strings.Join(words, " ")) }
	rows := map[string]bool{}
	for _, row := range invariantRow.FindAllStringSubmatch(page, -1) {
		number, judged, shown, faults := row[1], named(row[3]), named(row[4]), named(row[5])
		if rows[number] {
			add(number, "is there twice")
		}
		rows[number] = true
		if len(judged) == 0 || len(shown) == 0 {
			add(number, "names no judge, or nothing that shows it")
		}
		for _, name := range judged {
			if _, known := j.in[name]; !known {
				add(number, "is judged by", name+", which is no function")
			} else if !slices.Contains(j.names[name], number) {
				add(number, "is judged by", name+", which does not name it in its comment or in what it reports")
			}
		}
		for _, name := range j.reports[number] {
			if !slices.Contains(judged, name) {
				add(number, "is reported by", name+", which its row does not name")
			}
		}
		for _, name := range shown {
			action, story, _ := strings.Cut(name, "/")
			if _, known := j.in[name]; !known && !j.stories(action, story) {
				add(number, "is shown by", name+", which is no test and no file of stories")
			}
		}
		without := strings.HasPrefix(row[5], "none") && len(row[5]) > 20
		if !without && len(faults) == 0 {
			add(number, "names no test that plants a fault, and no reason that begins with \"none\"")
		}
		for _, name := range faults {
			if _, known := j.in[name]; !known {
				add(number, "has a fault planted by", name+", which is no function")
			} else if !without && !slices.Contains(j.files[name], number) {
				add(number, "has a fault planted by", name+", whose file does not name it")
			}
		}
		for _, file := range j.planted[number] {
			if !slices.ContainsFunc(faults, func(name string) bool { return j.in[name] == file }) {
				add(number, "has a fault planted in", file+", of which its row names no test")
			}
		}
	}
	for number, file := range j.said {
		if !rows[number] {
			add(number, "has no row, and", file, "names it")
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// named returns the names in a cell; one without a package is of test/simulation.
func named(cell string) (names []string) {
	for _, match := range inBackticks.FindAllStringSubmatch(cell, -1) {
		name := match[1]
		if !strings.Contains(name, "/") {
			name = "test/simulation." + name
		}
		names = append(names, name)
	}
	return names
}

// TestThePageOfInvariants holds docs/invariants.md to the code, and sees that a page that is wrong is found to be.
func TestThePageOfInvariants(t *testing.T) {
	j := findJudges(t)
	text, err := os.ReadFile(filepath.Join(root, invariantsPage))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, finding := range j.findings(page) {
		t.Errorf("%s: %s", invariantsPage, finding)
	}
	row := invariantRow.FindString(page)
	for _, c := range []struct{ old, wrong, want string }{
		{row, "", "I1 has no row, and"},
		{row, row + "\n" + row, "I1 is there twice"},
		{"`test/invariants.CheckMinimum`", "`TestSimulation`", "I1 is reported by test/invariants.CheckMinimum, which"},
		{"`givesGrace`", "`givesMercy`", "I30 is judged by test/simulation.givesMercy, which is no function"},
		{"`givesGrace`", "`givesGrace`, `isAssumed`", "I30 is judged by test/simulation.isAssumed, which does not name it"},
		{"`preempt/grace`", "`preempt/mercy`", "I30 is shown by preempt/mercy, which"},
		{"`preempt/grace`", "stories", "I30 names no judge, or nothing"},
		{"`TestAClockOnTheWallIsSeen`", "later", "I28 names no test that plants"},
		{"`TestAClockOnTheWallIsSeen`", "`TestPlantedBugsAreCaught`", "I28 has a fault planted by test/simulation.TestPlantedBugsAreCaught, whose file"},
		{"`TestAClockOnTheWallIsSeen`", "`TestAClockIsSeen`", "I28 has a fault planted by test/simulation.TestAClockIsSeen, which"},
		{"`TestPlantedBugsAboutTablesAreCaught`", "none: it counts with an oracle", "T6 has a fault planted in test/simulation/planted_tables_test.go, of which"},
	} {
		found := j.findings(strings.Replace(page, c.old, c.wrong, 1))
		if !strings.Contains(page, c.old) || !slices.ContainsFunc(found, func(one string) bool { return strings.HasPrefix(one, c.want) }) {
			t.Errorf("with %s in place of %s the test finds %s, want %q", strconv.Quote(c.wrong), strconv.Quote(c.old), found, c.want)
		}
	}
}
