package model

import (
	"cmp"
	"strings"
)

// CompareNatural orders names so that r2 comes before r10.
func CompareNatural(a, b string) int {
	for x, y := a, b; ; x, y = x[1:], y[1:] {
		switch {
		case x == "" || y == "":
			return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
		case isDigit(x[0]) && isDigit(y[0]):
			m, n := number(x), number(y)
			if order := cmp.Or(cmp.Compare(len(m), len(n)), cmp.Compare(m, n)); order != 0 {
				return order
			}
			x, y = x[digits(x)-1:], y[digits(y)-1:]
		case x[0] != y[0]:
			return cmp.Compare(x[0], y[0])
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits returns how many digits the text begins with.
func digits(text string) int {
	return len(text) - len(strings.TrimLeft(text, "0123456789"))
}

// number returns the number that the text begins with, without zeros in front.
func number(text string) string { return strings.TrimLeft(text[:digits(text)], "0") }
