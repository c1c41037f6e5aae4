package preempt

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestEachVictimCosts: more victims cost more, and a lower bound that is less stays less whatever is added to the other one.
func TestEachVictimCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) cost {
			priority := rapid.Int32Range(-3, 3).Draw(t, name)
			return cost{
				highest: priority, brokenGangs: rapid.IntRange(0, 1).Draw(t, "broken"), sum: weight(priority), pods: 1,
				latestStart: time.Unix(rapid.Int64Range(0, 3).Draw(t, "start"), 0),
			}
		}
		set := draw("first")
		for range rapid.IntRange(0, 4).Draw(t, "more") {
			one := draw("next")
			more := set.plus(&one)
			if set.compare(&more) >= 0 || one.compare(&more) >= 0 {
				t.Fatalf("%+v and %+v cost %+v", set, one, more)
			}
			if other := draw("other"); other.lowerBoundLess(&set) && other.compare(&more) >= 0 {
				t.Fatalf("%+v is below %+v, and not below %+v", other, set, more)
			}
			set = more
		}
	})
}
