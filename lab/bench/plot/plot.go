// Package plot draws the two kinds of pictures that benchmarks need, bars and curves, as small SVG files that are read
// beside text, on light and dark pages. It draws what it is given: no data is left out, and axes begin at zero.
package plot

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bar is one bar.
type Bar struct {
	Name  string
	Value float64
	// Note is written behind the bar, such as its value with a unit.
	Note string
}

// Point is a place on a curve.
type Point struct{ X, Y float64 }

// Curve is a line through points in order of X.
type Curve struct {
	Name   string
	Points []Point
}

// Axes name what is drawn, with units.
type Axes struct{ Title, X, Y string }

const (
	width, fontSize   = 760, 13
	barHeight, barGap = 22, 12
	left, right       = 190, 150
	top, bottom       = 44, 48
	plotHeight        = 300
)

// colour returns the colour of a contender; people who do not see red and green apart can tell them apart, too.
func colour(i int) string {
	return [...]string{"#8a8a8a", "#0072b2", "#e69f00", "#cc3311", "#009e73"}[i%5]
}

type canvas struct {
	strings.Builder
	height int
}

func begin(title string, height int) *canvas {
	c := &canvas{height: height}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="%d" role="img">`+"\n",
		width, height, width, height, fontSize)
	fmt.Fprintf(c, `<title>%s</title><rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n", escape(title))
	c.text(12, 24, "start", title, `font-weight="bold"`)
	return c
}

func (c *canvas) end() string {
	c.WriteString("</svg>\n")
	return c.String()
}

func (c *canvas) text(x, y float64, anchor, text string, more string) {
	fmt.Fprintf(c, `<text x="%s" y="%s" text-anchor="%s" fill="#222222" %s>%s</text>`+"\n", number(x), number(y), anchor, more, escape(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, stroke string) {
	fmt.Fprintf(c, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s"/>`+"\n", number(x1), number(y1), number(x2), number(y2), stroke)
}

// Bars draws one bar below the other; X names what their length is.
func Bars(axes Axes, bars []Bar) string {
	inner := len(bars)*(barHeight+barGap) + barGap
	c := begin(axes.Title, top+inner+bottom)
	most := 0.0
	for _, bar := range bars {
		most = max(most, bar.Value)
	}
	scale := newScale(most, left, width-right)
	c.vertical(scale, axes.X, top, float64(top+inner))
	for i, bar := range bars {
		y := float64(top + barGap + i*(barHeight+barGap))
		end := scale.at(bar.Value)
		c.text(left-8, y+barHeight-6, "end", bar.Name, "")
		fmt.Fprintf(c, `<rect x="%d" y="%s" width="%s" height="%d" fill="%s"/>`+"\n", left, number(y), number(end-left), barHeight, colour(i))
		c.text(end+6, y+barHeight-6, "start", bar.Note, "")
	}
	return c.end()
}

// vertical draws lines across at round values of the horizontal axis.
func (c *canvas) vertical(s scale, label string, from, to float64) {
	for _, tick := range s.ticks() {
		x := s.at(tick)
		c.line(x, from, x, to, "#dddddd")
		c.text(x, to+18, "middle", number(tick), "")
	}
	c.text((s.from+s.to)/2, to+38, "middle", label, "")
}

// Curves draws all curves on common axes, with a legend at the right.
func Curves(axes Axes, curves []Curve) string {
	c := begin(axes.Title, top+plotHeight+bottom)
	mostX, mostY := 0.0, 0.0
	for _, curve := range curves {
		for _, p := range curve.Points {
			mostX, mostY = max(mostX, p.X), max(mostY, p.Y)
		}
	}
	const leftEdge = 80
	x, y := newScale(mostX, leftEdge, width-right-40), newScale(mostY, top+plotHeight, top)
	c.vertical(x, axes.X, top, top+plotHeight)
	for _, tick := range y.ticks() {
		at := y.at(tick)
		c.line(leftEdge, at, x.to, at, "#dddddd")
		c.text(leftEdge-8, at+4, "end", number(tick), "")
	}
	middle := number(top + plotHeight/2)
	c.text(20, top+plotHeight/2, "middle", axes.Y, `transform="rotate(-90 20 `+middle+`)"`)
	for i, curve := range curves {
		points := make([]string, len(curve.Points))
		for j, p := range curve.Points {
			points[j] = number(x.at(p.X)) + "," + number(y.at(p.Y))
		}
		fmt.Fprintf(c, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour(i), strings.Join(points, " "))
		at := float64(top + 14 + i*22)
		fmt.Fprintf(c, `<rect x="%s" y="%s" width="12" height="12" fill="%s"/>`+"\n", number(x.to+14), number(at-10), colour(i))
		c.text(x.to+32, at, "start", curve.Name, "")
	}
	return c.end()
}

// scale maps values from zero on to places.
type scale struct{ most, from, to float64 }

func newScale(most, from, to float64) scale {
	if !(most > 0) || math.IsInf(most, 0) {
		most = 1
	}
	return scale{most: most, from: from, to: to}
}

func (s scale) at(value float64) float64 { return s.from + (s.to-s.from)*value/s.most }

// ticks are round values, at most nine of them.
func (s scale) ticks() []float64 {
	step := math.Pow(10, math.Floor(math.Log10(s.most)))
	for _, part := range []float64{0.1, 0.2, 0.25, 0.5, 1, 2} {
		if s.most/(step*part) <= 8 {
			step *= part
			break
		}
	}
	var ticks []float64
	for i := 0; float64(i)*step <= s.most*(1+1e-9); i++ {
		ticks = append(ticks, float64(i)*step)
	}
	return ticks
}

// number writes a place or a tick without more digits than any reader sees.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*1000)/1000, 'f', -1, 64) }

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}
