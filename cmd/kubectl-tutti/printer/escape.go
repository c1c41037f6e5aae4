package printer

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"sigs.k8s.io/yaml"
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

// The formats for programs.
const (
	JSON = "json"
	YAML = "yaml"
)

// Encode prints an object as JSON or YAML. YAML keeps the characters that only change the direction of text.
func (p *Printer) Encode(format string, object any) error {
	encoded, err := json.MarshalIndent(object, "", "  ")
	text := []byte(escapeJSON(string(encoded), obeyed))
	if err == nil && format == YAML {
		text, err = yaml.JSONToYAML([]byte(escapeJSON(string(encoded), unicode.IsControl)))
	}
	if err != nil {
		return fmt.Errorf("print: %w", err)
	}
	_, err = fmt.Fprintln(p.out, strings.TrimSpace(string(text)))
	return err
}

// escapeJSON escapes characters that the encoder of JSON leaves as they are. They stand in strings alone, and a line end stands
// in none.
func escapeJSON(text string, escaped func(rune) bool) string {
	var safe strings.Builder
	for _, r := range text {
		if r == '\n' || !escaped(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&safe, "\\u%04x", unit)
		}
	}
	return safe.String()
}
