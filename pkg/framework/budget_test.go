package framework

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// clockedBudget is a budget of five seconds and its time.
type clockedBudget struct {
	*Budget[string]
	now time.Time
}

func newClockedBudget() *clockedBudget {
	c := &clockedBudget{now: time.Unix(1000, 0)}
	c.Budget = NewBudget[string](5*time.Second, func() time.Time { return c.now })
	return c
}

// work is for a kind of a namespace, whose name begins that of the kind: so many steps, two seconds each.
type work struct {
	kind  string
	steps int
}

// cycle returns which kinds came to their end, in their order, and in brackets those that were cut after they had begun.
func (c *clockedBudget) cycle(all ...work) string {
	c.Begin()
	var ended []string
	for _, a := range all {
		namespace, done := strings.TrimRight(a.kind, "0123456789"), 0
		for done < a.steps && c.Admit(a.kind, namespace) {
			c.Do(a.kind, namespace, func() { c.now = c.now.Add(2 * time.Second) })
			done++
		}
		switch {
		case done == a.steps:
			ended = append(ended, a.kind)
		case done > 0:
			ended = append(ended, "("+a.kind+")")
		}
	}
	return strings.Join(ended, " ")
}

func once(kinds ...string) (all []work) {
	for _, kind := range kinds {
		all = append(all, work{kind, 1})
	}
	return all
}

func (c *clockedBudget) expect(t *testing.T, cycle int, want string, all ...work) {
	t.Helper()
	if got := c.cycle(all...); got != want {
		t.Errorf("cycle %d: %q, want %q", cycle+1, got, want)
	}
}

// TestABudgetIsSharedByTurns of the kinds: none comes again before all others, and when all have had their turn the first do.
func TestABudgetIsSharedByTurns(t *testing.T) {
	c, all := newClockedBudget(), once("n0", "n1", "n2", "n3", "n4", "n5", "n6")
	for i, want := range []string{"n0 n1 n2", "n3 n4 n5", "n6", "n0 n1 n2"} {
		c.expect(t, i, want, all...)
	}
}

// TestAKindThatNeedsMoreThanACycleHasItsTurn and no more: others come before it has another one.
func TestAKindThatNeedsMoreThanACycleHasItsTurn(t *testing.T) {
	c, all := newClockedBudget(), []work{{"n0", 100}, {"n1", 1}, {"n2", 100}, {"n3", 1}}
	for i, want := range []string{"(n0)", "n1 (n2)", "(n2)", "n3", "(n0)"} {
		c.expect(t, i, want, all...)
	}
	if cut, whole := c.WasCut("n0", "n"); !cut || !whole {
		t.Errorf("n0 was cut %t, with all the time %t", cut, whole)
	}
	if cut, whole := c.WasCut("n1", "n"); !cut || whole {
		t.Errorf("n1 was cut %t, with all the time %t", cut, whole)
	}
	if cut, _ := c.WasCut("n9", "n"); cut {
		t.Error("a kind that did not ask was cut")
	}
}

// TestNewKindsInEachCycleDelayOthersByOneCycle, also others that have had a turn already: a user who makes new jobs all the time
// keeps no other namespace from its next turn.
func TestNewKindsInEachCycleDelayOthersByOneCycle(t *testing.T) {
	c, turns := newClockedBudget(), 0
	for i := range 20 {
		flood := []work{}
		for n := range 5 {
			flood = append(flood, work{fmt.Sprint("flood", 100*i+n), 100})
		}
		if got := c.cycle(append(flood, work{"quiet0", 1})...); strings.Contains(got, "quiet0") {
			turns++
		}
	}
	if turns < 9 {
		t.Errorf("the other namespace had a turn in %d of 20 cycles", turns)
	}
}

// TestTheFirstHasItsOwnTime and what comes after it only what is left, and a little more.
func TestTheFirstHasItsOwnTime(t *testing.T) {
	c := newClockedBudget()
	for i, want := range []time.Duration{30, 4, 2} {
		if got := c.Timeout(30 * time.Second); got != want*time.Second {
			t.Errorf("the %d. has %s", i, got)
		}
		c.Do("n0", "n", func() { c.now = c.now.Add(2 * time.Second) })
	}
	if got := c.Timeout(time.Millisecond); got > time.Millisecond {
		t.Errorf("a short limit becomes %s", got)
	}
}
