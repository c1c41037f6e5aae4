package model

import (
	"math"
	"testing"
)

// TestNumber: none, what cannot be read, and the largest that there is in place of all that are larger.
func TestNumber(t *testing.T) {
	for _, c := range []struct {
		number Number
		want   int
		ok     bool
	}{
		{Number(0), 0, false}, {Unreadable, 0, false}, {NumberOf(0), 0, true}, {NumberOf(7), 7, true},
		{NumberOf(math.MaxInt32 - 1), math.MaxInt32 - 1, true}, {NumberOf(math.MaxInt32), math.MaxInt32 - 1, true},
	} {
		if got, ok := c.number.Get(); ok != c.ok || ok && got != c.want {
			t.Errorf("%d: %d, %t, want %d, %t", c.number, got, ok, c.want, c.ok)
		}
	}
}
