package preempt

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// TestEachKeyDecides between two units that are equal in all keys before it, though those behind it say otherwise.
func TestEachKeyDecides(t *testing.T) {
	unit := func(gang bool, priorities ...int32) victimUnit {
		u := victimUnit{of: &victimJob{gang: gang, priority: 5}, whole: len(priorities) > 1}
		for _, priority := range priorities {
			u.tasks = append(u.tasks, &model.Task{PodRef: model.PodRef{Name: "b"}, Pod: &corev1.Pod{}, Priority: priority, Created: time.Unix(9, 0), GraceSeconds: 5})
		}
		return u
	}
	changed := func(u victimUnit, how func(*model.Task)) victimUnit {
		how(u.tasks[0])
		return u
	}
	cases := map[string]struct {
		cheap, dear           victimUnit
		cheapPrice, dearPrice framework.Price
	}{
		"a queue below its share": {
			cheap: unit(true, 5, 5), dear: unit(true, 1), cheapPrice: framework.Price{Gangs: 9, Rank: 9}, dearPrice: framework.Price{BelowShare: 1},
		},
		"gangs of other queues": {cheap: unit(true, 5, 5), dear: unit(true, 1), cheapPrice: framework.Price{Rank: 9}, dearPrice: framework.Price{Gangs: 1}},
		"the queue":             {cheap: unit(true, 5, 5), dear: unit(true, 1), cheapPrice: framework.Price{Rank: 1}, dearPrice: framework.Price{Rank: 2}},
		"the highest priority":  {cheap: unit(true, 5, 5), dear: unit(true, 6)},
		"gangs that end":        {cheap: unit(false, 5, 5, 5), dear: unit(true, 5, 5)},
		"the sum of priorities": {
			cheap: changed(unit(true, 4, 5), func(task *model.Task) { task.GraceSeconds = 9 }), dear: unit(true, 5, 5),
		},
		"pods": {cheap: unit(false, 5), dear: unit(false, 5, 5)},
		"the grace": {
			cheap: changed(unit(true, 5), func(task *model.Task) { task.GraceSeconds, task.Created = 4, time.Unix(1, 0) }), dear: unit(true, 5),
		},
		"the start": {
			cheap: changed(unit(true, 5), func(task *model.Task) { task.Name = "c" }),
			dear:  changed(unit(true, 5), func(task *model.Task) { task.Created = time.Unix(8, 0) }),
		},
		"the name": {cheap: changed(unit(true, 5), func(task *model.Task) { task.Name = "a" }), dear: unit(true, 5)},
	}
	if len(cases) != keys { // without violations, which come before each of them, and with the name, which is no key
		t.Errorf("%d keys have a case, want %d", len(cases)-1, keys-1)
	}
	for name, c := range cases {
		c.cheap.cost, c.dear.cost = costOf(&c.cheap, c.cheapPrice), costOf(&c.dear, c.dearPrice)
		if compareUnits(&c.cheap, &c.dear) >= 0 || compareUnits(&c.dear, &c.cheap) <= 0 {
			t.Errorf("%s does not decide: %v, %v", name, c.cheap.cost, c.dear.cost)
		}
		c.dear.cost[violations], c.cheap.cost[violations] = 0, 1
		if compareUnits(&c.cheap, &c.dear) <= 0 {
			t.Errorf("violations do not come before %s", name)
		}
	}
}

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
