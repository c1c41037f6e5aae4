package main

import "testing"

func TestPercentFor(t *testing.T) {
	for _, c := range []struct {
		inUse uint64
		want  int
	}{{0, 300}, {10 << 20, 300}, {64 << 20, 200}, {128 << 20, 100}, {160 << 20, 80}, {1 << 30, 50}} {
		if got := percentFor(c.inUse); got != c.want {
			t.Errorf("%d MiB in use: %d %%, want %d %%", c.inUse>>20, got, c.want)
		}
	}
}
