package v1alpha1

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// arguments decodes the arguments of nodeorder; the first of them is on line 5.
func arguments(t *testing.T, lines ...string) Arguments {
	t.Helper()
	text := "actions: allocate\ntiers:\n- plugins: [{name: gang}, {name: nodeorder,\n    arguments: {\n" +
		strings.Join(lines, ",\n") + "}}]\n"
	config, _, err := Decode("f", []byte(text), known())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return config.Tiers[0].Plugins[1].Arguments
}

func TestReaderReadsEachType(t *testing.T) {
	r := arguments(t, `n: 2`, `quoted: "3"`, `negative: -4`, `on: true`, `off: "F"`, `span: 1h30m`, `zero: 0`,
		`text: "  kept as it is"`, `word: most`).Reader()
	got := []any{
		r.Int("n", 0, 0, 10), r.Int("quoted", 0, 0, 10), r.Int("negative", 0, -10, 10), r.Int("absent", 7, 0, 1),
		r.Bool("on", false), r.Bool("off", true), r.Bool("absent.bool", true),
		r.Duration("span", 0, 0), r.Duration("zero", time.Minute, 0), r.Duration("absent.span", time.Hour, 0),
		r.String("text", ""), r.String("absent.text", "default"),
		r.OneOf("word", "least", "least", "most"), r.OneOf("absent.word", "least", "least", "most"),
	}
	want := []any{
		int64(2), int64(3), int64(-4), int64(7), true, false, true,
		90 * time.Minute, time.Duration(0), time.Hour, "  kept as it is", "default", "most", "least",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	r.Refuse("absent", "be there")
	if err := r.Finish(); err != nil {
		t.Errorf("all arguments were read and good: %v", err)
	}
}

func TestReaderRefuses(t *testing.T) {
	number := func(r *Reader) any { return r.Int("weight", 1, 0, 100) }
	flag := func(r *Reader) any { return r.Bool("strict", true) }
	span := func(r *Reader) any { return r.Duration("after", time.Minute, time.Second) }
	word := func(r *Reader) any { return r.OneOf("mode", "least", "least", "most") }
	for _, c := range []struct {
		name, line string
		read       func(*Reader) any
		def        any
		want       string
	}{
		{"a fraction", `weight: 2.5`, number, int64(1), `argument weight must be a whole number between 0 and 100, not "2.5"`},
		{"a word", `weight: two`, number, int64(1), `argument weight must be a whole number between 0 and 100, not "two"`},
		{"nothing in quotes", `weight: ""`, number, int64(1), `argument weight must be a whole number between 0 and 100, not ""`},
		{"beyond int64", `weight: 9223372036854775808`, number, int64(1), `argument weight must be a whole number between 0 and 100, not "9223372036854775808"`},
		{"too small", `weight: -1`, number, int64(1), `argument weight must be between 0 and 100, not "-1"`},
		{"too big", `weight: "101"`, number, int64(1), `argument weight must be between 0 and 100, not "101"`},
		{"YAML 1.1 yes", `strict: yes`, flag, true, `argument strict must be true or false, not "yes"`},
		{"no unit", `after: 10`, span, time.Minute, `argument after must be a time span with its unit, such as 90s or 10m, not "10"`},
		{"too short", `after: -5s`, span, time.Minute, `argument after must not be shorter than 1s, not "-5s"`},
		{"no choice", `mode: mots`, word, "least", `argument mode must be one of least and most, not "mots"; did you mean "most"?`},
		{"misspelt name", `wieght: 1`, number, int64(1), `unknown argument "wieght"; did you mean "weight"?`},
		{"other name", `colour: red`, number, int64(1), `unknown argument "colour"; it takes weight`},
		{"no argument is read", `colour: red`, func(*Reader) any { return nil }, nil, `unknown argument "colour"; it takes none`},
		{"owner's own rule", `weight: 3`, func(r *Reader) any { r.Refuse("weight", "be even"); return nil }, nil, `argument weight must be even, not "3"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := arguments(t, c.line).Reader()
			if got := c.read(r); got != c.def {
				t.Errorf("value %v, want the default %v", got, c.def)
			}
			if got, want := fmt.Sprint(r.Finish()), "f:5: plugin nodeorder: "+c.want; got != want {
				t.Errorf("error\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestReaderSaysAllThatIsWrongByLine(t *testing.T) {
	r := arguments(t, `zeta: 1`, `weight: x`, `alpha: 2`).Reader()
	r.Int("weight", 1, 0, 10)
	want := "f:5: plugin nodeorder: unknown argument \"zeta\"; it takes weight\n" +
		"f:6: plugin nodeorder: argument weight must be a whole number between 0 and 10, not \"x\"\n" +
		"f:7: plugin nodeorder: unknown argument \"alpha\"; it takes weight"
	for range 2 { // Finish may be asked twice
		if diff := cmp.Diff(want, fmt.Sprint(r.Finish())); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	}
}

func TestArgumentsWithoutAFile(t *testing.T) {
	r := NewArguments("plugin gang", map[string]string{"x": "1"}).Reader()
	if got, want := fmt.Sprint(r.Finish()), `plugin gang: unknown argument "x"; it takes none`; got != want {
		t.Errorf("error %s, want %s", got, want)
	}
	var none Arguments
	if err := none.Reader().Finish(); err != nil || none.Len() != 0 {
		t.Errorf("the zero value: %v, %d", err, none.Len())
	}
}

// nested decodes arguments of block style; the first of their lines is line 5.
func nested(t *testing.T, lines ...string) *Reader {
	t.Helper()
	text := "actions: allocate\ntiers:\n- plugins: [{name: gang}]\n- plugins: [{name: nodeorder, arguments: {\n" +
		strings.Join(lines, "\n") + "}}]\n"
	config, _, err := Decode("f", []byte(text), known())
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return config.Tiers[1].Plugins[0].Arguments.Reader()
}

func TestReaderReadsListsAndMappings(t *testing.T) {
	r := nested(t, `names: [a, "2"],`, `none: [],`, `servers: [`, `{url: x, tls: {file: f, strict: true}},`, `{weight: 3},`, `{}]`)
	var got []any
	got = append(got, r.Texts("names"), r.Texts("none"), r.Texts("absent"), len(r.Items("absent")))
	for _, item := range r.Items("servers") {
		tls, given := item.Section("tls")
		got = append(got, item.String("url", "-"), item.Int("weight", 1, 0, 9), given, tls.String("file", "-"), tls.Bool("strict", false))
	}
	want := []any{
		[]string{"a", "2"}, []string(nil), []string(nil), 0,
		"x", int64(1), true, "f", true, "-", int64(3), false, "-", false, "-", int64(1), false, "-", false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if err := r.Finish(); err != nil {
		t.Errorf("all arguments were read and good: %v", err)
	}
}

func TestReaderRefusesInsideListsAndMappings(t *testing.T) {
	r := nested(t, `word: [1],`, `names: [a,`, `[b]],`, `text: {a: b},`, `section: 3,`, `map: {a: 1},`, `servers: [`,
		`{weight: 99,`, `tls: {fiel: x}},`, `other,`, `{wieght: 1, tls: [x]},`, `{weight: [2], url: x}]`)
	r.Int("word", 0, 0, 1)
	r.Texts("names")
	r.String("text", "")
	r.Section("section")
	r.Items("map")
	for _, item := range r.Items("servers") {
		item.Int("weight", 1, 0, 9)
		item.Require("url")
		tls, _ := item.Section("tls")
		tls.String("file", "")
	}
	want := `f:5: plugin nodeorder: argument word must be a single value, not a list
f:7: plugin nodeorder: argument names[1] must be a single value, not a list
f:8: plugin nodeorder: argument text must be a single value, not a mapping
f:9: plugin nodeorder: argument section must be a mapping of names to values, not "3"
f:10: plugin nodeorder: argument map must be a list, not a mapping
f:12: plugin nodeorder: argument servers[0].weight must be between 0 and 9, not "99"
f:12: plugin nodeorder: argument servers[0].url is missing
f:13: plugin nodeorder: unknown argument "fiel" in servers[0].tls; did you mean "file"?
f:14: plugin nodeorder: argument servers[1] must be a mapping of names to values, not "other"
f:15: plugin nodeorder: argument servers[2].url is missing
f:15: plugin nodeorder: argument servers[2].tls must be a mapping of names to values, not a list
f:15: plugin nodeorder: unknown argument "wieght" in servers[2]; did you mean "weight"?
f:16: plugin nodeorder: argument servers[3].weight must be a single value, not a list`
	for range 2 { // Finish may be asked twice
		if diff := cmp.Diff(want, fmt.Sprint(r.Finish())); diff != "" {
			t.Errorf("errors (-want +got):\n%s", diff)
		}
	}
}
