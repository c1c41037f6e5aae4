package v1alpha1

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Errors returns the single errors in what Decode or Reader.Finish returned, in the order of their lines. It returns
// nil for nil, and leaves out what is not an *Error.
func Errors(err error) []*Error {
	switch e := err.(type) {
	case nil:
		return nil
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() []error }:
		var all []*Error
		for _, one := range e.Unwrap() {
			all = append(all, Errors(one)...)
		}
		return all
	default:
		return Errors(errors.Unwrap(err))
	}
}

// Join returns all errors as one: those that Errors finds, by line and each once, and then the others in their order. It
// returns nil when there are none.
func Join(errs ...error) error {
	var placed []*Error
	var others []error
	for _, err := range errs {
		if found := Errors(err); len(found) > 0 {
			placed = append(placed, found...)
		} else if err != nil {
			others = append(others, err)
		}
	}
	slices.SortStableFunc(placed, func(a, b *Error) int { return cmp.Compare(a.Position.Line, b.Position.Line) })
	placed = slices.CompactFunc(placed, func(a, b *Error) bool { return a.Position == b.Position && a.Text == b.Text })
	return errors.Join(join(placed), errors.Join(others...))
}

// join returns the errors as one, by line, or nil when there are none.
func join(all []*Error) error {
	slices.SortStableFunc(all, func(a, b *Error) int { return cmp.Compare(a.Position.Line, b.Position.Line) })
	joined := make([]error, len(all))
	for i, e := range all {
		joined[i] = e
	}
	return errors.Join(joined...)
}

// longestShown bounds what a message repeats of the file.
const longestShown = 60

// quote returns a name as messages show it: quoted, and cut when it is very long.
func quote(s string) string {
	if len(s) > longestShown {
		s = strings.ToValidUTF8(s[:longestShown], "") + "..."
	}
	return strconv.Quote(s)
}

// plain returns a name as messages begin with it: bare if it is a word, else as quote.
func plain(s string) string {
	if q := quote(s); q != `"`+s+`"` || strings.ContainsAny(s, " :") {
		return q
	}
	return s
}

// DidYouMean returns "; did you mean ...?" with the choice closest to the name, or "" when none is close.
func DidYouMean[S ~string](name string, choices []S) string {
	if best := Nearest(name, choices); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return ""
}

// Nearest returns the choice closest to the name, of several the first, or "" when none is close.
func Nearest[S ~string](name string, choices []S) string {
	best, least := "", max(2, len(name)/3)+1
	if len(name) > longestShown {
		return ""
	}
	for _, choice := range choices {
		if d := editDistance(strings.ToLower(name), strings.ToLower(string(choice))); d < least {
			best, least = string(choice), d
		}
	}
	return best
}

// editDistance is the least number of letters to add, take out, replace or swap with their neighbour that leads from a
// to b.
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			replaced := above[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// list returns the names as "a, b and c", or "none".
func list[S ~string](names []S) string {
	text := make([]string, len(names))
	for i, n := range names {
		text[i] = string(n)
	}
	switch n := len(text); n {
	case 0:
		return "none"
	case 1:
		return text[0]
	default:
		return strings.Join(text[:n-1], ", ") + " and " + text[n-1]
	}
}
