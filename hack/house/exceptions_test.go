package house

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// exceptionsFile lists, by rule, the places that break it today, and how often each does.
const exceptionsFile = "exceptions.txt"

// exception is a line of the file: a place and a number.
var exception = regexp.MustCompile(`(?m)^(\S.*\S) (\d+)\n`)

// section returns where the lines of a rule begin and end in the text.
func section(text, rule string) (begin, end int) {
	head := "\n[" + rule + "]\n"
	begin = strings.Index(text, head)
	if begin < 0 {
		return len(text), len(text)
	}
	begin += len(head)
	if end = strings.Index(text[begin:], "\n["); end < 0 {
		return begin, len(text)
	}
	return begin, begin + end
}

// excepted returns what the list of a rule allows, by place.
func excepted(text, rule string) map[string]int {
	begin, end := section(text, rule)
	allowed := map[string]int{}
	for _, line := range exception.FindAllStringSubmatch(text[begin:end], -1) {
		allowed[line[1]], _ = strconv.Atoi(line[2])
	}
	return allowed
}

// compared returns the places where a rule is broken more often than its list allows, and those where it is broken less often.
func compared(allowed, found map[string]int) (more, less []string) {
	for _, place := range slices.Sorted(maps.Keys(found)) {
		if n := found[place]; n > allowed[place] {
			more = append(more, fmt.Sprintf("%s: found %d, allowed %d", place, n, allowed[place]))
		}
	}
	for _, place := range slices.Sorted(maps.Keys(allowed)) {
		if n := found[place]; n < allowed[place] {
			less = append(less, fmt.Sprintf("%s: found %d, listed %d", place, n, allowed[place]))
		}
	}
	return more, less
}

// lowered returns the text with the list of a rule lowered to what is found. It allows nothing that it did not allow before.
func lowered(text, rule string, found map[string]int) string {
	begin, end := section(text, rule)
	lines := exception.ReplaceAllStringFunc(text[begin:end], func(line string) string {
		of := exception.FindStringSubmatch(line)
		listed, _ := strconv.Atoi(of[2])
		if n := min(listed, found[of[1]]); n > 0 {
			return fmt.Sprintf("%s %d\n", of[1], n)
		}
		return ""
	})
	return text[:begin] + lines + text[end:]
}

// hold fails for each place that breaks a rule and is not in its list, and for each that is in the list and does not break it any
// longer: lists only shrink. found is how often each place breaks the rule, mend what to do instead.
func hold(t *testing.T, rule, mend string, found map[string]int) {
	t.Helper()
	read, err := os.ReadFile(exceptionsFile)
	if err != nil {
		t.Fatal(err)
	}
	text := string(read)
	more, less := compared(excepted(text, rule), found)
	for _, one := range more {
		t.Errorf("%s: %s; %s", rule, one, mend)
	}
	if *update && len(less) > 0 {
		if err := os.WriteFile(exceptionsFile, []byte(lowered(text, rule, found)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, one := range less {
		t.Errorf("%s: %s; that is better: lower the list in hack/house/%s with `go test ./hack/house -update`", rule, one, exceptionsFile)
	}
}

// TestListsOfExceptionsOnlyShrink: what is new is found, and what is gone has to leave the list.
func TestListsOfExceptionsOnlyShrink(t *testing.T) {
	const text = "# Why.\n\n[first]\na.go calls x 2\nb.go 1\nc.go 3\n\n[second]\na.go 1\n"
	found := map[string]int{"a.go calls x": 1, "c.go": 4, "d.go": 1}
	more, less := compared(excepted(text, "first"), found)
	if got, want := fmt.Sprint(more, less), "[c.go: found 4, allowed 3 d.go: found 1, allowed 0] "+
		"[a.go calls x: found 1, listed 2 b.go: found 0, listed 1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	want := "# Why.\n\n[first]\na.go calls x 1\nc.go 3\n\n[second]\na.go 1\n"
	if got := lowered(text, "first", found); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if more, _ := compared(excepted(text, "third"), map[string]int{"a.go": 1}); len(more) != 1 {
		t.Errorf("a rule without a list allows something: %s", more)
	}
}
