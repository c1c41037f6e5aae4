package printer

import (
	"bytes"
	"testing"
)

func TestRows(t *testing.T) {
	rows := [][]Cell{{{Text: "a"}, {Text: "waits", Style: Red}, {Text: "x"}}, {{Text: "größer"}, {Text: "runs", Style: Green}}}
	for name, c := range map[string]struct {
		paper func(*bytes.Buffer) *Printer
		want  string
	}{
		"a pipe": {
			func(b *bytes.Buffer) *Printer { return New(b, func(string) string { return "" }) },
			"NAME     STATE   MORE\na        waits   x\ngrößer   runs\n",
		},
		"a terminal": {
			func(b *bytes.Buffer) *Printer { return &Printer{out: b, colours: true} },
			"NAME     STATE   MORE\na        \x1b[31mwaits\x1b[0m   x\ngrößer   \x1b[32mruns\x1b[0m\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			c.paper(&out).Rows("", append([][]Cell{Cells("NAME", "STATE", "MORE")}, rows...))
			if out.String() != c.want {
				t.Errorf("printed %q, want %q", out.String(), c.want)
			}
		})
	}
}
