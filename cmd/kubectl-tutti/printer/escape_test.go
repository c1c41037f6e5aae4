package printer

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
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
		p.Table([]string{text}, [][]Cell{{{Text: text}, {text, Bold}}})
		p.Pairs([][]Cell{Cells(text, text)})
		if n := strings.Count(out.String(), "\n"); n != 4 {
			t.Errorf("%q became %d lines, want 4", text, n)
		}
		p.Lines(Dim, text)
		assertShown(t, text, out.String(), obeyed)
	}
}

// TestStructuredOutputIsEscapedAndTheSame for programs.
func TestStructuredOutputIsEscapedAndTheSame(t *testing.T) {
	for format, read := range map[string]func([]byte, any) error{
		JSON: json.Unmarshal, YAML: func(text []byte, into any) error { return yaml.Unmarshal(text, into) },
	} {
		for _, text := range append(hostile, strings.Join(hostile, " ")) {
			text = strings.ToValidUTF8(text, "\ufffd")
			var out bytes.Buffer
			if err := New(&out, func(string) string { return "" }).Encode(format, map[string]string{"key": text, text: "value"}); err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			if err := read(out.Bytes(), &got); err != nil || got["key"] != text || got[text] != "value" {
				t.Errorf("%s: %q, %v in\n%q", format, got, err, out.String())
			}
			dangerous := obeyed
			if format == YAML {
				dangerous = unicode.IsControl
			}
			assertShown(t, format+" of "+text, out.String(), dangerous)
		}
	}
}

func assertShown(t *testing.T, what, text string, dangerous func(rune) bool) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && dangerous(r) {
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
