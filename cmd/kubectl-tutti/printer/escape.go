package printer

import (
	"strconv"
	"strings"
	"unicode"
)

// obeyed reports whether a terminal may obey a character rather than show it: control characters, among them ESC, which begins
// an escape sequence, and CSI (U+009B), which is one; those that change the direction or hide text; and other line ends.
func obeyed(r rune) bool {
	return r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Escape returns a text as a terminal may get it: what a terminal would obey is written as in Go, such as \x1b, and bytes that
// are not UTF-8 are replaced.
func Escape(text string) string {
	var safe strings.Builder
	for _, r := range text {
		if obeyed(r) {
			safe.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			safe.WriteRune(r)
		}
	}
	return safe.String()
}
