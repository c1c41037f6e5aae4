package printer

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

// hostile are texts that a user of the cluster may write into names, annotations and messages.
var hostile = []string{
	"\x1b[2J\x1b[1;1H", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\link", "\u009b31m", "\x9b31m", "a\rb", "a\nPodGroup ml/x has started",
	"\x00\x7f\u0085", "\u202egnp.exe", "\u2066x\u2069", "\u2028", "\u200b", "\U000e0001",
}

// TestNothingReachesATerminalThatItWouldObey: whichever way a text takes.
func TestNothingReachesATerminalThatItWouldObey(t *testing.T) {
	for _, text := range hostile {
		var out bytes.Buffer
		p := New(&out, func(string) string { return "" })
		p.Printf("%s %v %s %s|\n", text, errors.New(text), Cell{text, Red}, Style(text))
		p.Rows("", [][]Cell{Cells(text), {{Text: text}, {text, Bold}}})
		p.Rows("  ", [][]Cell{Cells(text, text)})
		if n := strings.Count(out.String(), "\n"); n != 4 {
			t.Errorf("%q became %d lines, want 4", text, n)
		}
		p.Lines(text)
		assertShown(t, text, out.String())
	}
}

func assertShown(t *testing.T, what, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && obeyed(r) {
			t.Errorf("%q: %q in\n%q", what, r, text)
		}
	}
	if strings.ContainsAny(text, "\x00\x07\r\x1b\x7f\u009b") {
		t.Errorf("%q: what a terminal obeys in\n%q", what, text)
	}
	if !utf8.ValidString(text) {
		t.Errorf("%q: bytes that are not UTF-8 in\n%q", what, text)
	}
}
