package shares

import (
	"slices"
	"testing"
)

// given is a queue of a table, below Root, with one resource.
type given struct {
	weight, guarantee, demand int64
	limit                     int64 // 0 for none
}

func flat(supply int64, queues ...given) *Tree {
	t := new(Tree)
	t.Reset(1)
	for i, q := range queues {
		t.Add(Root, q.weight)
		a := Amounts{Guarantee: q.guarantee, Demand: q.demand, Limit: NoLimit}
		if q.limit > 0 {
			a.Limit = q.limit
		}
		t.SetAmounts(i, 0, a)
	}
	t.Compute([]int64{supply})
	return t
}

func floorsAndShares(t *Tree) (floors, shares []int64) {
	for i := range t.Len() {
		p := t.Part(i, 0)
		floors, shares = append(floors, p.Floor), append(shares, p.Share)
	}
	return floors, shares
}

// TestWorkedShares is the table of one resource and one set of siblings.
func TestWorkedShares(t *testing.T) {
	asked := func(queues []given) (floors []int64) {
		for _, q := range queues {
			floors = append(floors, min(q.guarantee, q.demand))
		}
		return floors
	}
	for _, c := range []struct {
		name   string
		supply int64
		queues []given
		shares []int64
		floors []int64 // nil if they are not scaled
		rate   Fraction
		idle   bool // not contended
	}{
		{name: "two equals", supply: 16, queues: []given{{1, 0, 40, 0}, {1, 0, 40, 0}}, shares: []int64{8, 8}, rate: Fraction{16, 2}},
		{name: "guarantee first", supply: 100, queues: []given{{1, 40, 100, 0}, {3, 0, 100, 0}, {0, 0, 100, 0}},
			shares: []int64{55, 45, 0}, rate: Fraction{60, 4}},
		{name: "demand caps", supply: 100, queues: []given{{1, 40, 100, 0}, {3, 0, 30, 0}, {0, 0, 100, 0}},
			shares: []int64{70, 30, 0}, rate: Fraction{30, 1}},
		{name: "unused guarantee", supply: 12, queues: []given{{1, 6, 4, 0}, {1, 2, 20, 0}, {2, 0, 20, 0}},
			shares: []int64{4, 4, 4}, rate: Fraction{6, 3}},
		{name: "too many guarantees", supply: 8, queues: []given{{1, 8, 8, 0}, {1, 8, 8, 0}},
			shares: []int64{4, 4}, floors: []int64{4, 4}, rate: Fraction{0, 1}},
		{name: "thirds", supply: 10, queues: []given{{1, 0, 10, 0}, {1, 0, 10, 0}, {1, 0, 10, 0}},
			shares: []int64{4, 4, 4}, rate: Fraction{10, 3}},
		{name: "no weight, in equal parts", supply: 10, queues: []given{{1, 0, 4, 0}, {0, 0, 20, 3}, {0, 0, 20, 0}},
			shares: []int64{4, 3, 3}, rate: Fraction{4, 1}},
		{name: "rounded up", supply: 11, queues: []given{{1, 5, 10, 10}, {1, 5, 10, 10}}, shares: []int64{6, 6}, rate: Fraction{1, 2}},
		{name: "limit caps", supply: 64, queues: []given{{1, 0, 64, 16}, {1, 0, 64, 0}, {2, 8, 64, 0}},
			shares: []int64{14, 14, 36}, rate: Fraction{56, 4}},
		{name: "scaled and rounded down", supply: 7, queues: []given{{1, 9, 9, 0}, {1, 3, 3, 0}, {5, 0, 9, 0}},
			shares: []int64{5, 1, 0}, floors: []int64{5, 1, 0}, rate: Fraction{0, 1}},
		// What one has no use for is the other's: it is not scaled by what is asked for, which falls with each pod that ends.
		{name: "guarantees of which one is not used in full", supply: 8, queues: []given{{1, 8, 4, 0}, {1, 8, 8, 0}},
			shares: []int64{4, 4}, floors: []int64{4, 4}, rate: Fraction{0, 1}},
		{name: "guarantees of which one is hardly used", supply: 8, queues: []given{{1, 8, 2, 0}, {1, 8, 8, 0}},
			shares: []int64{2, 6}, floors: []int64{2, 6}, rate: Fraction{0, 1}},
		{name: "enough for all", supply: 20, queues: []given{{1, 5, 8, 0}, {0, 0, 12, 0}}, shares: []int64{8, 12}, rate: Fraction{0, 1}, idle: true},
		{name: "no supply", supply: 0, queues: []given{{1, 5, 8, 0}, {0, 0, 12, 0}}, shares: []int64{0, 0}, floors: []int64{0, 0}, rate: Fraction{0, 1}},
		{name: "products beyond 64 bits", supply: 3 << 49, queues: []given{{1, 0, 1 << 50, 0}, {1<<14 + 1, 0, 1 << 50, 0}},
			shares: []int64{1 << 49, 1 << 50}, rate: Fraction{1 << 49, 1}},
		{name: "zero weights alone", supply: 7, queues: []given{{0, 0, 9, 0}, {0, 2, 9, 0}}, shares: []int64{3, 5}, rate: Fraction{0, 1}},
	} {
		tree := flat(c.supply, c.queues...)
		floors, shares := floorsAndShares(tree)
		want := c.floors
		if want == nil {
			want = asked(c.queues)
		}
		if !slices.Equal(floors, want) || !slices.Equal(shares, c.shares) {
			t.Errorf("%s: floors %v and shares %v, want %v and %v", c.name, floors, shares, want, c.shares)
		}
		d := tree.Division(Root, 0)
		if d.Rate.Compare(c.rate) != 0 || d.Contended == c.idle || d.Scaled != (c.floors != nil) || d.Supply != c.supply {
			t.Errorf("%s: %+v, want the rate %v", c.name, d, c.rate)
		}
	}
}

// TestTreeOfTwoLevels divides what a parent has, not what its children ask for.
func TestTreeOfTwoLevels(t *testing.T) {
	tree := new(Tree)
	tree.Reset(1)
	// science has 1 of 4 parts and a child with a guarantee; factory has 3, of which its limit takes some.
	science, factory := tree.Add(Root, 1), tree.Add(Root, 3)
	physics, biology := tree.Add(science, 1), tree.Add(science, 1)
	line, staff := tree.Add(factory, 2), tree.Add(factory, 0)
	tree.SetAmounts(factory, 0, Amounts{Limit: 60})
	tree.SetAmounts(physics, 0, Amounts{Guarantee: 20, Limit: NoLimit, Demand: 100, Usage: 7})
	tree.SetAmounts(biology, 0, Amounts{Limit: 10, Demand: 100, Usage: 3})
	tree.SetAmounts(line, 0, Amounts{Limit: NoLimit, Demand: 50})
	tree.SetAmounts(staff, 0, Amounts{Limit: NoLimit, Demand: 50, Usage: 30})
	if !tree.Compute([]int64{100}) || tree.Compute([]int64{100}) {
		t.Error("computed never, or twice")
	}
	for queue, want := range []Part{
		{Guarantee: 20, Usage: 10, Demand: 110, Ceiling: 110, Floor: 20, Share: 40}, // science
		{Guarantee: 0, Usage: 30, Demand: 100, Ceiling: 60, Floor: 0, Share: 60},    // factory
		{Guarantee: 20, Usage: 7, Demand: 100, Ceiling: 100, Floor: 20, Share: 30},  // physics
		{Usage: 3, Demand: 100, Ceiling: 10, Share: 10},                             // biology
		{Demand: 50, Ceiling: 50, Share: 50},                                        // line
		{Usage: 30, Demand: 50, Ceiling: 50, Share: 10},                             // staff
	} {
		if got := tree.Part(queue, 0); got != want {
			t.Errorf("queue %d: %+v, want %+v", queue, got, want)
		}
	}

	tree.AddUsage(biology, []int64{4})
	if tree.Part(biology, 0).Usage != 7 || tree.Part(science, 0).Usage != 14 || tree.Part(physics, 0).Usage != 7 {
		t.Error("usage is not added to the queue and its parent alone")
	}
	if tree.Compute([]int64{100}) {
		t.Error("computed again, for usage of a leaf")
	}
	// Jobs that stayed in a queue when children were added to it.
	tree.SetAmounts(science, 0, Amounts{Limit: NoLimit, Usage: 5, Demand: 5})
	if !tree.Compute([]int64{100}) {
		t.Error("not computed after a change of amounts")
	}
	if got := tree.Division(science, 0); got.Supply != 35 || tree.Part(science, 0).Usage != 19 {
		t.Errorf("children divide %d of a share of %d, of which 5 are used", got.Supply, tree.Part(science, 0).Share)
	}
}

// TestWeightsAreBounded compares a weight that no queue may have with the nearest one that it may have.
func TestWeightsAreBounded(t *testing.T) {
	for weight, bounded := range map[int64]int64{-5: 0, MaxWeight + 7: MaxWeight} {
		tree, want := flat(9, given{weight, 0, 12, 0}, given{2, 0, 12, 0}), flat(9, given{bounded, 0, 12, 0}, given{2, 0, 12, 0})
		for i := range tree.Len() {
			if tree.Part(i, 0) != want.Part(i, 0) {
				t.Errorf("weight %d, queue %d: %+v, want %+v", weight, i, tree.Part(i, 0), want.Part(i, 0))
			}
		}
	}
}

// TestComputeFollowsEachChange compares with a tree that was made as the other became.
func TestComputeFollowsEachChange(t *testing.T) {
	tree := flat(12, given{1, 0, 12, 0}, given{1, 0, 12, 0})
	for _, c := range []struct {
		name   string
		change func()
		supply int64
		fresh  *Tree
	}{
		{"nothing", func() {}, 12, nil},
		{"supply", func() {}, 9, flat(9, given{1, 0, 12, 0}, given{1, 0, 12, 0})},
		{"limit", func() { tree.SetAmounts(1, 0, Amounts{Demand: 12, Limit: 4}) }, 9, flat(9, given{1, 0, 12, 0}, given{1, 0, 12, 4})},
		{"another tree", func() { tree.Reset(1); tree.SetAmounts(tree.Add(Root, 1), 0, Amounts{Demand: 4, Limit: NoLimit}) }, 9, flat(9, given{1, 0, 4, 0})},
	} {
		c.change()
		if got := tree.Compute([]int64{c.supply}); got != (c.fresh != nil) {
			t.Errorf("%s: computed: %t", c.name, got)
		}
		for i := range tree.Len() {
			if c.fresh != nil && (tree.Len() != c.fresh.Len() || tree.Part(i, 0) != c.fresh.Part(i, 0) || tree.Division(Root, 0) != c.fresh.Division(Root, 0)) {
				t.Errorf("%s: queue %d: %+v, want %+v", c.name, i, tree.Part(i, 0), c.fresh.Part(i, 0))
			}
		}
	}
	tree.AddUsage(0, []int64{3})
	tree.Compute(nil)
	if p := tree.Part(0, 0); p.Usage != 3 || p.Share != 0 {
		t.Errorf("%+v after usage was added, and without supply", p)
	}
}
