package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

// wellFormed reads a picture to its end and counts its elements.
func wellFormed(t *testing.T, svg string) map[string]int {
	t.Helper()
	count := map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return count
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			count[start.Name.Local]++
		}
	}
}

func TestBars(t *testing.T) {
	svg := Bars(Axes{Title: `a < b & "c"`, X: "seconds"}, []Bar{{"one", 1, "1 s"}, {"two", 2, "2 s"}})
	if count := wellFormed(t, svg); count["rect"] != 3 { // and the background
		t.Errorf("%v elements", count)
	}
	for _, want := range []string{"a &lt; b &amp;", ">seconds<", ">one<", ">2 s<", `width="210"`, `width="420"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestCurves(t *testing.T) {
	svg := Curves(Axes{Title: "t", X: "seconds", Y: "pods"}, []Curve{
		{"one", []Point{{0, 0}, {10, 5000}}}, {"two", []Point{{0, 0}, {20, 2500}}},
	})
	if count := wellFormed(t, svg); count["polyline"] != 2 {
		t.Errorf("%v elements", count)
	}
	for _, want := range []string{`points="80,344 325,44"`, `points="80,344 570,194"`, ">pods<", ">5000<", ">20<"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in\n%s", want, svg)
		}
	}
}

func TestNothingToDrawIsStillAPicture(t *testing.T) {
	wellFormed(t, Bars(Axes{}, nil))
	wellFormed(t, Bars(Axes{}, []Bar{{"zero", 0, ""}}))
	wellFormed(t, Curves(Axes{}, []Curve{{"empty", nil}}))
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for most, want := range map[float64]int{1: 6, 3.2: 7, 5000: 6, 10_000: 6, 140: 8, 0.9: 5} {
		ticks := newScale(most, 0, 1).ticks()
		if len(ticks) != want || ticks[0] != 0 || ticks[len(ticks)-1] > most*1.000001 {
			t.Errorf("to %g: %v", most, ticks)
		}
	}
}
