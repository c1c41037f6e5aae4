package preempt

import (
	"testing"

	"pgregory.net/rapid"
)

// drawCost returns what one unit costs.
func drawCost(t *rapid.T) (c cost) {
	for k := range c {
		c[k] = rapid.Int64Range(0, 2).Draw(t, "cost")
	}
	c[highest], c[priorities], c[pods] = c[highest]+1, c[priorities]+1, 1
	return c
}

// TestEachVictimCosts: more victims cost more than each part of them, by each key.
func TestEachVictimCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := cost{}
		for range rapid.IntRange(1, 5).Draw(t, "units") {
			one := drawCost(t)
			more, same := set.plus(&one), one.plus(&set)
			if set.compare(&more) >= 0 || set[pods] > 0 && one.compare(&more) >= 0 || more != same {
				t.Fatalf("%v and %v cost %v, the other way round %v", set, one, more, same)
			}
			set = more
		}
	})
}
