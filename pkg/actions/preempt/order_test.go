package preempt

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// TestEachVictimCosts: more victims cost more, and a lower bound that is less stays less whatever is added to the other one.
func TestEachVictimCosts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) cost {
			priority := rapid.Int32Range(-3, 3).Draw(t, name)
			return cost{
				highest: priority, brokenGangs: rapid.IntRange(0, 1).Draw(t, "broken"), sum: weight(priority), pods: 1,
				grace:         rapid.Int64Range(0, 2).Draw(t, "grace"),
				earliestStart: time.Unix(rapid.Int64Range(0, 3).Draw(t, "start"), 0),
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

// TestReprieveOrderIsTheReverse: what costs most is released first.
func TestReprieveOrderIsTheReverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) victimUnit {
			priority, pods := rapid.Int32Range(-3, 3).Draw(t, name), rapid.IntRange(1, 3).Draw(t, "pods")
			return victimUnit{tasks: make([]*model.Task, pods), cost: cost{
				pdbViolations: rapid.IntRange(0, 1).Draw(t, "violations"), highest: priority, brokenGangs: rapid.IntRange(0, 1).Draw(t, "broken"),
				sum: int64(pods) * weight(priority), pods: pods,
				grace: rapid.Int64Range(0, 2).Draw(t, "grace"), earliestStart: time.Unix(rapid.Int64Range(0, 3).Draw(t, "start"), 0),
			}}
		}
		a, b := draw("a"), draw("b")
		a.tasks[0], b.tasks[0] = &model.Task{PodRef: model.PodRef{UID: "a"}}, &model.Task{PodRef: model.PodRef{UID: "b"}}
		if order := a.cost.compare(&b.cost); order != 0 && byReprieveOrder(&a, &b) != -order {
			t.Fatalf("%+v and %+v: compared %d, for a reprieve %d", a.cost, b.cost, order, byReprieveOrder(&a, &b))
		}
	})
}
