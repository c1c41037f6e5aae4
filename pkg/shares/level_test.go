package shares

import (
	"cmp"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLevels is the table of one resource: a supply of 100, of which each unit of weight may have 15 above the floor.
func TestLevels(t *testing.T) {
	tree := flat(100, given{1, 40, 100, 0}, given{3, 0, 100, 0}, given{0, 0, 100, 0}, given{0, 10, 100, 0})
	// The floors are 40, 0, 0 and 10: 50 is left.
	for _, c := range []struct {
		queue int
		usage int64
		want  string
	}{
		{0, 0, "0"},
		{0, 40, "0"},
		{0, 41, "0.080"},
		{0, 52, "0.960"},
		{0, 53, "1.040"},
		{1, 0, "0"},
		{1, 37, "0.987"},
		{1, 75, "2.000"},
		{2, 0, "weight 0: 0.000"},
		{2, 1, "weight 0: 0.010"},
		{3, 9, "0"},
		{3, 10, "weight 0: 0.000"},
		{3, 20, "weight 0: 0.100"},
	} {
		level := tree.Level(c.queue, 0, c.usage)
		if got := level.String(); got != c.want {
			t.Errorf("queue %d with %d: %s, want %s", c.queue, c.usage, got, c.want)
		}
	}

	for name, c := range map[string]struct {
		tree *Tree
		want []string // with one unit above the floor
	}{
		"nothing above floors": {flat(8, given{1, 8, 8, 0}, given{2, 8, 8, 0}, given{0, 0, 8, 0}),
			[]string{"above what is left: 0.125", "above what is left: 0.062", "weight 0: 0.125"}},
		"no supply":        {flat(0, given{1, 0, 8, 0}, given{0, 0, 8, 0}), []string{"above what is left: 1.000", "weight 0: 1.000"}},
		"enough for all":   {flat(20, given{1, 8, 8, 0}, given{0, 0, 8, 0}), []string{"0", "0"}},
		"weights have all": {flat(20, given{1, 0, 4, 0}, given{2, 0, 4, 0}, given{0, 0, 20, 0}), []string{"0.250", "0.125", "weight 0: 0.050"}},
	} {
		for i, want := range c.want {
			if got := c.tree.Level(i, 0, c.tree.Part(i, 0).Floor+1).String(); got != want {
				t.Errorf("%s: the level of queue %d is %s, want %s", name, i, got, want)
			}
		}
	}
}

// TestWhatIsAboveALimitIsTheHighestLevel has 12 of which one queue holds 6 of its limit of 2, one with the same weight all of its
// share, and one waits for 3: there is enough for what they ask for within their limits, but not for what they hold.
func TestWhatIsAboveALimitIsTheHighestLevel(t *testing.T) {
	tree := new(Tree)
	tree.Reset(1)
	for i, a := range []Amounts{
		{Limit: 2, Usage: 6, Demand: 6}, {Limit: NoLimit, Usage: 6, Demand: 6}, {Limit: NoLimit, Demand: 3},
		{Limit: 1, Usage: 0, Demand: 1},
	} {
		tree.Add(Root, []int64{1, 1, 1, 0}[i])
		tree.SetAmounts(i, 0, a)
	}
	tree.Compute([]int64{12})
	if d := tree.Division(Root, 0); !d.Contended || d.Rate != (Fraction{6, 1}) {
		t.Errorf("%+v", d)
	}
	if _, shares := floorsAndShares(tree); !slices.Equal(shares, []int64{2, 6, 3, 1}) {
		t.Errorf("shares %d", shares)
	}
	for _, c := range []struct {
		queue  int
		change int64
		want   string
	}{
		{0, 0, "above the limit: 0.333"},
		{0, -3, "above the limit: 0.083"},
		{0, -4, "above the limit: 0.000"},
		{0, -5, "0.167"},
		{1, 0, "1.000"},
		{1, 1, "1.167"}, // a limit has no part in it
		{2, 3, "0.500"},
		{3, 1, "weight 0: 0.083"},
	} {
		if got := tree.Level(c.queue, 0, c.change).String(); got != c.want {
			t.Errorf("queue %d with %d more: %s, want %s", c.queue, c.change, got, c.want)
		}
	}
	for i := range 5 { // the order by numbers is the same
		a, b := tree.Level(0, 0, int64(-i)), tree.Level(1, 0, 2)
		if cmp.Compare(a.number(), b.number()) != a.Compare(b) {
			t.Errorf("%s is %d, %s %d", a, a.number(), b, b.number())
		}
	}
}

// TestLevelsCompareAsFractions compares any two levels, of amounts up to the largest, with fractions without bounds.
func TestLevelsCompareAsFractions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		level := func() (Level, *big.Rat, rank) {
			amounts := rapid.OneOf(sizes(t), rapid.Int64Range(0, math.MaxInt64/8))
			siblings := forest(t, amounts, 1)
			supply := supplyFor(t, amounts, siblings)
			tree := compute(supply, siblings)
			q, change := rapid.IntRange(0, tree.Len()-1).Draw(t, "queue"), amounts.Draw(t, "change")
			p, d, weight := tree.Part(q, 0), tree.Division(Root, 0), tree.queues[q].weight
			above := p.Usage + change - p.Floor
			fraction := func(weight int64, rate Fraction) *big.Rat {
				unit := new(big.Rat).Mul(rational(weight), big.NewRat(rate.P, rate.Q))
				return unit.Quo(rational(above), unit)
			}
			switch {
			case d.Contended && p.Usage > p.Ceiling && p.Usage+change >= p.Ceiling:
				return tree.Level(q, 0, change), new(big.Rat).SetFrac64(p.Usage+change-p.Ceiling, max(1, supply)), aboveLimit
			case !d.Contended, above < 0, above == 0 && weight > 0:
				return tree.Level(q, 0, change), new(big.Rat), atFloor
			case weight == 0:
				return tree.Level(q, 0, change), fraction(1, Fraction{max(1, supply), 1}), weightless
			case d.Rate.P == 0:
				return tree.Level(q, 0, change), fraction(weight, Fraction{max(1, supply), 1}), beyond
			}
			return tree.Level(q, 0, change), fraction(weight, d.Rate), aboveFloor
		}
		a, x, first := level()
		b, y, second := level()
		if a.rank != first || b.rank != second {
			t.Fatalf("ranks %d and %d, want %d and %d", a.rank, b.rank, first, second)
		}
		if got, want := a.Compare(b), cmp.Or(cmp.Compare(first, second), x.Cmp(y)); got != want || b.Compare(a) != -want || a.Compare(a) != 0 {
			t.Fatalf("%s and %s compare as %d, want %d (%s and %s)", a, b, got, want, x, y)
		}
		// The number of 62 bits has 40 of the fraction, so that less of a difference may be lost.
		number := cmp.Compare(a.number(), b.number())
		apart := new(big.Rat).Sub(x, y)
		small := x.Cmp(y) == 0 || apart.Abs(apart).Cmp(big.NewRat(1, 1<<40)) <= 0 || x.Cmp(rational(1<<21)) > 0 && y.Cmp(rational(1<<21)) > 0 ||
			first != aboveFloor && x.Cmp(rational(1)) > 0 && y.Cmp(rational(1)) > 0
		if number != a.Compare(b) && (number != 0 || first != second || !small) {
			t.Fatalf("the numbers of %s and %s compare as %d", x, y, number)
		}
	})
}

// TestStandings has devices, resource 1, and CPUs, resource 0: a queue that borrows one is not behind for the other.
func TestStandings(t *testing.T) {
	tree := new(Tree)
	tree.Reset(3)
	for range 3 {
		tree.Add(Root, 1)
	}
	demand := func(queue, resource int, guarantee, usage int64) {
		tree.SetAmounts(queue, resource, Amounts{Guarantee: guarantee, Limit: NoLimit, Usage: usage, Demand: 100})
	}
	demand(0, 0, 0, 60)
	demand(1, 0, 0, 10)
	demand(2, 0, 0, 10)
	demand(0, 1, 8, 4)
	demand(1, 1, 4, 3)
	demand(2, 1, 0, 1)
	tree.SetAmounts(1, 2, Amounts{Guarantee: 4, Limit: NoLimit, Usage: 4, Demand: 4})
	tree.Compute([]int64{90, 24, 100})
	cpu, devices := World{0}, World{1, 2}
	order := func(world World) []int {
		queues := []int{0, 1, 2}
		slices.SortFunc(queues, func(a, b int) int {
			x, y := tree.Standing(a, world, nil), tree.Standing(b, world, nil)
			level, met := x.Rank()
			otherLevel, otherMet := y.Rank()
			if order := cmp.Or(cmp.Compare(level, otherLevel), cmp.Compare(met, otherMet)); order != x.Compare(y) {
				t.Errorf("the ranks of %+v and %+v compare as %d", x, y, order)
			}
			return x.Compare(y)
		})
		return queues
	}
	if got := order(cpu); !slices.Equal(got, []int{1, 2, 0}) {
		t.Errorf("the order for CPUs is %v", got)
	}
	// Half of the guarantee met, three quarters, and above. Resource 2 is not contended, and its guarantee does not count.
	if got := order(devices); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("the order for devices is %v", got)
	}
	if s := tree.Standing(1, devices, nil); s.Met.Compare(Fraction{3, 4}) != 0 || s.Level != (Level{}) {
		t.Errorf("%+v, want three quarters of the floor", s)
	}
	if s := tree.Standing(1, devices, []int64{0, 9}); s.Met.Compare(Fraction{1, 1}) != 0 || s.Level.String() != "2.000" {
		t.Errorf("%+v, want the floor and twice the share above it", s)
	}
	if s := tree.Standing(0, World{}, nil); s.Compare(Standing{Met: Fraction{0, 1}}) != 0 {
		t.Errorf("%+v in a world without resources", s)
	}
}

// TestExchanges has one resource, 12 devices: six single ones of queue 0, two gangs of three of queue 1, and a gang of four that
// waits in queue 2.
func TestExchanges(t *testing.T) {
	tree := flat(12, given{1, 0, 6, 0}, given{1, 0, 6, 0}, given{1, 0, 4, 0})
	tree.AddUsage(0, []int64{6})
	tree.AddUsage(1, []int64{6})
	devices := World{0}
	for _, c := range []struct {
		giver      int
		gain, loss int64
		want       bool
	}{
		{giver: 0, gain: 4, loss: 2, want: true}, // 4 and 4
		{giver: 0, gain: 4, loss: 3},             // 3 and 4
		{giver: 1, gain: 4, loss: 3},
		{giver: 0, gain: 2, loss: 2, want: true},
		{giver: 0, gain: 0, loss: 2},
	} {
		e := Exchange{Taker: 2, Giver: c.giver, Gain: []int64{c.gain}, Loss: []int64{c.loss}}
		if got := tree.EndsNoHigher(&e, devices); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if got := tree.LowerInOne(&e, devices, []int64{1}); got != (c.want && c.gain > 0) {
			t.Errorf("%+v: lower in one is %t", c, got)
		}
		if tree.LowerInOne(&e, devices, nil) || tree.EndsNoHigher(&e, World{}) {
			t.Errorf("%+v: allowed for a unit or a world without resources", c)
		}
	}
}

// TestExchangesOfSeveralResources has two resources that are contended and one that is not. The floors are 0, and each unit above
// them is a level of 1/10.
func TestExchangesOfSeveralResources(t *testing.T) {
	tree := new(Tree)
	tree.Reset(3)
	for q := range 2 {
		tree.Add(Root, 1)
		for r := range 2 {
			tree.SetAmounts(q, r, Amounts{Limit: NoLimit, Demand: 20, Usage: []int64{4, 8, 9, 9}[2*q+r]})
		}
	}
	tree.Compute([]int64{20, 20, 20})
	all := World{0, 1, 2}
	for _, c := range []struct {
		gain, loss, unit []int64
		noHigher, inOne  bool
	}{
		// The highest level does not rise, and (8, 5) is not above (8, 8).
		{gain: []int64{1}, loss: []int64{1, 1}, unit: []int64{1}, noHigher: true, inOne: true},
		// The highest level does not rise, (8, 7) is above (8, 6).
		{gain: []int64{3}, loss: []int64{3, 1}, unit: []int64{3}},
		// The highest level rises to 9, as high as the giver's other resource, which the taker is not compared in.
		{gain: []int64{0, 1}, loss: []int64{0, 3}, unit: []int64{0, 3}, noHigher: true},
		// Only what is not contended is given and gained: the taker does not rise.
		{gain: []int64{0, 0, 1}, loss: []int64{0, 0, 1}, unit: []int64{0, 0, 1}},
		// The taker rises in what the unit does not give.
		{gain: []int64{1}, loss: []int64{0, 1}, unit: []int64{0, 1}, noHigher: true},
	} {
		e := Exchange{Taker: 0, Giver: 1, Gain: c.gain, Loss: c.loss}
		if got := tree.EndsNoHigher(&e, all); got != c.noHigher {
			t.Errorf("%+v: ends no higher is %t", e, got)
		}
		if got := tree.LowerInOne(&e, all, c.unit); got != c.inOne {
			t.Errorf("%+v: lower in one is %t", e, got)
		}
	}
}

// TestExchangesComeToAnEnd applies exchanges that are allowed, and in which the giver stays at its floors, of random queues and
// amounts: what there is of the floors rises with each, or the sorted list of all levels, the lowest first.
func TestExchangesComeToAnEnd(t *testing.T) {
	applied := 0
	rapid.Check(t, func(t *rapid.T) {
		tree := new(Tree)
		n, resources := rapid.IntRange(2, 5).Draw(t, "queues"), rapid.IntRange(1, 3).Draw(t, "resources")
		tree.Reset(resources)
		amounts := rapid.Int64Range(0, 12)
		var world World
		var supply []int64
		for r := range resources {
			world, supply = append(world, r), append(supply, rapid.Int64Range(4, 24).Draw(t, "supply"))
		}
		for q := range n {
			tree.Add(Root, rapid.Int64Range(0, 3).Draw(t, "weight"))
			for r := range resources {
				tree.SetAmounts(q, r, Amounts{
					Guarantee: rapid.SampledFrom([]int64{0, 0, 3}).Draw(t, "guarantee"), Usage: amounts.Draw(t, "usage"), Demand: 12,
					Limit: rapid.SampledFrom([]int64{NoLimit, NoLimit, 4}).Draw(t, "limit"),
				})
			}
		}
		tree.Compute(supply)
		list, filled := sortedLevels(tree, world), filledFloors(tree, world)
		for range 20 {
			e := Exchange{Taker: rapid.IntRange(0, n-1).Draw(t, "taker"), Giver: rapid.IntRange(0, n-1).Draw(t, "giver")}
			var loss []int64
			for r := range resources {
				e.Gain = append(e.Gain, rapid.Int64Range(0, 4).Draw(t, "gain"))
				e.Loss = append(e.Loss, min(tree.Part(e.Giver, r).Usage, rapid.Int64Range(0, 4).Draw(t, "loss")))
				loss = append(loss, -e.Loss[r])
			}
			sinks := slices.ContainsFunc(world, func(r int) bool {
				p := tree.Part(e.Giver, r)
				return e.Loss[r] > 0 && p.Usage-e.Loss[r] < p.Floor
			})
			if e.Taker == e.Giver || sinks || !tree.EndsNoHigher(&e, world) {
				continue
			}
			tree.AddUsage(e.Taker, e.Gain)
			tree.AddUsage(e.Giver, loss)
			after, has := sortedLevels(tree, world), filledFloors(tree, world)
			if has < filled || has == filled && slices.CompareFunc(after, list, compareLevels) <= 0 {
				t.Fatalf("%+v: levels %v and %d of floors, then %v and %d", e, list, filled, after, has)
			}
			list, filled, applied = after, has, applied+1
		}
	})
	if applied < 50 {
		t.Errorf("only %d exchanges were allowed", applied)
	}
}

// filledFloors is what queues have of their floors.
func filledFloors(tree *Tree, world World) (sum int64) {
	for q := range tree.Len() {
		for _, r := range world {
			p := tree.Part(q, r)
			sum += min(p.Usage, p.Floor)
		}
	}
	return sum
}

func sortedLevels(tree *Tree, world World) (list [][]Level) {
	for q := range tree.Len() {
		list = append(list, tree.levels(nil, q, world, nil, 1))
	}
	slices.SortFunc(list, compareLevels)
	return list
}

// TestWide compares the integers of 128 and 256 bits with integers without bounds.
func TestWide(t *testing.T) {
	word := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3), rapid.Uint64Range(math.MaxUint64-3, math.MaxUint64), rapid.Just(uint64(1)<<63))
	whole := func(words ...uint64) *big.Int { // the highest first
		n := new(big.Int)
		for _, w := range words {
			n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(w))
		}
		return n
	}
	if got := (wide{low: 1 << 22}).fixed(wide{low: 1}, 40); got != 1<<62-1 {
		t.Errorf("2²² in 62 bits, of which 40 are a fraction, is %d", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		var w [4]wide
		var b [4]*big.Int
		for i := range w {
			w[i] = wide{high: word.Draw(t, "high"), low: word.Draw(t, "low")}
			b[i] = whole(w[i].high, w[i].low)
		}
		p := w[0].times(w[1])
		if got, want := whole(p[3], p[2], p[1], p[0]), new(big.Int).Mul(b[0], b[1]); got.Cmp(want) != 0 {
			t.Fatalf("%s × %s is %s, want %s", b[0], b[1], got, want)
		}
		if b[1].Sign() > 0 && b[3].Sign() > 0 {
			want := new(big.Rat).SetFrac(b[0], b[1]).Cmp(new(big.Rat).SetFrac(b[2], b[3]))
			if got := compareFractions(w[0], w[1], w[2], w[3]); got != want {
				t.Fatalf("%s/%s and %s/%s compare as %d, want %d", b[0], b[1], b[2], b[3], got, want)
			}
		}
		quotient := new(big.Int)
		if b[1].Sign() > 0 && quotient.Div(b[0], b[1]).BitLen() < 64 {
			if got := w[0].over(w[1]); got != quotient.Uint64() {
				t.Fatalf("%s over %s is %d, want %s", b[0], b[1], got, quotient)
			}
		}
		if n := rapid.IntRange(1, 61).Draw(t, "bits"); b[1].Sign() > 0 && b[1].BitLen() < 127 && b[0].BitLen() < 128 {
			want := quotient.Div(quotient.Lsh(b[0], uint(n)), b[1])
			if want.BitLen() > 62 {
				want.SetUint64(1<<62 - 1)
			}
			if got := w[0].fixed(w[1], n); got != want.Uint64() {
				t.Fatalf("%s over %s is %d with %d bits, want %s", b[0], b[1], got, n, want)
			}
		}
	})
}
