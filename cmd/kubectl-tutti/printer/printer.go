// Package printer prints the output of kubectl tutti: tables, and colours on a terminal. It does not interpret the content.
//
// Names, annotations and messages come from users of the cluster. All of them are printed by this package alone, which escapes
// what a terminal would obey (escape.go).
package printer

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Style is a text style.
type Style string

// The styles, as terminal codes.
const (
	Plain   Style = ""
	Bold    Style = "1"
	Green   Style = "32"
	Warning Style = "33"
	Red     Style = "31"
)

// Printer writes text. It is not safe for concurrent use. Write errors, such as of a closed pipe, are ignored.
type Printer struct {
	out     io.Writer
	colours bool
}

// New returns a Printer for a writer. It uses colours on a terminal only, and none when the environment has NO_COLOR or a
// dumb terminal.
func New(out io.Writer, environment func(string) string) *Printer {
	file, isFile := out.(*os.File)
	return &Printer{out: out, colours: isFile && term.IsTerminal(int(file.Fd())) &&
		environment("NO_COLOR") == "" && environment("TERM") != "dumb"}
}

// colorize returns an escaped text in its style.
func (p *Printer) colorize(cell Cell) string {
	text := Escape(cell.Text)
	if !p.colours || cell.Style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(cell.Style) + "m" + text + "\x1b[0m"
}

// Printf prints as fmt does. Arguments are escaped, line ends among them; a Cell is printed in its style.
func (p *Printer) Printf(format string, arguments ...any) {
	safe := make([]any, len(arguments))
	for i, argument := range arguments {
		switch a := argument.(type) {
		case Cell:
			safe[i] = p.colorize(a)
		case int, int32, int64, uint64, bool:
			safe[i] = a
		default:
			safe[i] = Escape(fmt.Sprint(a))
		}
	}
	_, _ = fmt.Fprintf(p.out, format, safe...)
}

// Lines prints a text of several lines, each escaped.
func (p *Printer) Lines(text string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		p.Printf("%s\n", line)
	}
}

// Cell is a text with a style: one cell of a table, or an argument of Printf.
type Cell struct {
	Text  string
	Style Style
}

// Cells returns plain cells.
func Cells(texts ...string) []Cell {
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i] = Cell{Text: text}
	}
	return cells
}

// gap is the width between two columns, as in kubectl.
const gap = 3

// Rows prints rows with an indent, each column as wide as its widest cell. Rows may be shorter than the first.
func (p *Printer) Rows(indent string, rows [][]Cell) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], width(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString(indent)
		for i, cell := range row {
			line.WriteString(p.colorize(cell))
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-width(cell)+gap))
			}
		}
		_, _ = fmt.Fprintln(p.out, strings.TrimRight(line.String(), " "))
	}
}

func width(cell Cell) int { return utf8.RuneCountInString(Escape(cell.Text)) }

// Few lists up to a few names.
func Few(names []string) string {
	const most = 4
	names = slices.Sorted(slices.Values(names))
	if len(names) > most+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
