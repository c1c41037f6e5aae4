package shares

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// node is a queue of one resource as the oracle sees it: an object with children.
type node struct {
	weight   int64
	amounts  Amounts
	children []*node

	guarantee, most, usage, floor, share int64
	number                               int // in the Tree
}

// oracle computes floors and shares by the definition: in rounds, in each of which all siblings that still want something grow
// at the same rate until the first of them has all or nothing is left, with fractions without bounds.
func oracle(supply int64, siblings []*node) (rate *big.Rat) {
	floors := int64(0)
	for _, n := range siblings {
		n.sum()
		n.floor = min(n.guarantee, n.most)
		floors += n.floor
	}
	rate = new(big.Rat)
	parts := map[*node]*big.Rat{}
	switch {
	case floors > supply: // each grows by its guarantee, up to what it asks for of it
		rounds(rational(supply), siblings, parts, func(n *node) int64 { return n.floor }, func(n *node) int64 { return n.guarantee })
		for _, n := range siblings {
			n.floor = 0
			if parts[n] != nil {
				n.floor = new(big.Int).Quo(parts[n].Num(), parts[n].Denom()).Int64()
			}
		}
		clear(parts)
	case supply < held(siblings):
		left, extra := rational(supply-floors), func(n *node) int64 { return n.most - n.floor }
		rate = rounds(left, siblings, parts, extra, func(n *node) int64 { return n.weight })
		rounds(left, siblings, parts, extra, func(n *node) int64 {
			if n.weight > 0 {
				return 0
			}
			return 1
		})
	default:
		for _, n := range siblings {
			parts[n] = rational(n.most - n.floor)
		}
	}
	for _, n := range siblings {
		n.share = n.floor + roundUp(parts[n])
		oracle(max(0, n.share-n.amounts.Usage), n.children)
	}
	return rate
}

// held is what siblings ask for, or hold if that is more.
func held(siblings []*node) (sum int64) {
	for _, n := range siblings {
		sum += max(n.most, n.usage)
	}
	return sum
}

// sum computes what a queue and all below it want.
func (n *node) sum() {
	children, demand := int64(0), n.amounts.Demand
	n.usage = n.amounts.Usage
	for _, c := range n.children {
		c.sum()
		children, demand, n.usage = children+c.guarantee, demand+c.most, n.usage+c.usage
	}
	n.guarantee, n.most = max(children, n.amounts.Guarantee), min(demand, n.amounts.Limit)
}

// rounds takes from left what each of those with a weight gets of the extra amount that it wants, and returns what each got for a
// unit of weight.
func rounds(left *big.Rat, siblings []*node, parts map[*node]*big.Rat, extra, weight func(*node) int64) (rate *big.Rat) {
	rate = new(big.Rat)
	for {
		step, weights := (*big.Rat)(nil), int64(0)
		wants := map[*node]*big.Rat{}
		for _, n := range siblings {
			has := parts[n]
			if has == nil {
				has = new(big.Rat)
			}
			want := new(big.Rat).Sub(rational(extra(n)), has)
			if weight(n) == 0 || want.Sign() == 0 {
				continue
			}
			wants[n], weights = has, weights+weight(n)
			if want.Quo(want, rational(weight(n))); step == nil || want.Cmp(step) < 0 {
				step = want
			}
		}
		if step == nil || left.Sign() == 0 {
			return rate
		}
		if enough := new(big.Rat).Quo(left, rational(weights)); enough.Cmp(step) < 0 {
			step = enough
		}
		for n, has := range wants {
			parts[n] = new(big.Rat).Add(has, new(big.Rat).Mul(step, rational(weight(n))))
		}
		rate.Add(rate, step)
		left.Sub(left, new(big.Rat).Mul(step, rational(weights)))
	}
}

func rational(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

func roundUp(r *big.Rat) int64 {
	if r == nil {
		return 0
	}
	quotient, remainder := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if remainder.Sign() > 0 {
		return quotient.Int64() + 1
	}
	return quotient.Int64()
}

// sizes draws amounts that often are equal, or zero, or as large as they may be.
func sizes(t *rapid.T) *rapid.Generator[int64] {
	largest := rapid.SampledFrom([]int64{3, 20, 1000, 1 << 50, 1 << 50}).Draw(t, "largest")
	spread := rapid.Map(rapid.Int64Range(0, 1000), func(n int64) int64 { return largest / 1000 * n })
	return rapid.OneOf(rapid.Int64Range(0, largest), spread, rapid.Int64Range(0, 3), rapid.Just(largest))
}

// forest draws the children of Root, in three levels at most.
func forest(t *rapid.T, amounts *rapid.Generator[int64], levels int) []*node {
	siblings := make([]*node, rapid.IntRange(1, 5).Draw(t, "siblings"))
	large := rapid.Map(rapid.Int64Range(0, 1000), func(n int64) int64 { return MaxWeight - MaxWeight/1000*n })
	weights := rapid.OneOf(rapid.Int64Range(0, 4), rapid.SampledFrom([]int64{1, 1, 0}), large)
	for i := range siblings {
		n := &node{weight: weights.Draw(t, "weight"), amounts: Amounts{Limit: NoLimit}}
		if rapid.Bool().Draw(t, "guaranteed") {
			n.amounts.Guarantee = amounts.Draw(t, "guarantee")
		}
		if rapid.IntRange(0, 2).Draw(t, "limited") == 0 {
			n.amounts.Limit = amounts.Draw(t, "limit")
		}
		inner := levels > 1 && rapid.IntRange(0, 2).Draw(t, "inner") == 0
		if !inner || rapid.IntRange(0, 5).Draw(t, "own") == 0 {
			n.amounts.Demand = amounts.Draw(t, "demand")
			n.amounts.Usage = rapid.Int64Range(0, n.amounts.Demand).Draw(t, "usage")
		}
		if inner {
			n.children = forest(t, amounts, levels-1)
		}
		siblings[i] = n
	}
	return siblings
}

func supplyFor(t *rapid.T, amounts *rapid.Generator[int64], siblings []*node) int64 {
	most := int64(0)
	for _, n := range siblings {
		n.sum()
		most += n.most
	}
	return rapid.OneOf(rapid.Int64Range(0, most), amounts).Draw(t, "supply")
}

// plant makes a Tree of one resource.
func plant(siblings []*node) *Tree {
	t := new(Tree)
	t.Reset(1)
	var add func(int, []*node)
	add = func(parent int, siblings []*node) {
		for _, n := range siblings {
			n.number = t.Add(parent, n.weight)
			t.SetAmounts(n.number, 0, n.amounts)
		}
		for _, n := range siblings {
			add(n.number, n.children)
		}
	}
	add(Root, siblings)
	return t
}

func each(siblings []*node, do func(*node)) {
	for _, n := range siblings {
		do(n)
		each(n.children, do)
	}
}

// TestSharesEqualTheOracle compares random trees with the definition, the rate of the topmost queues too.
func TestSharesEqualTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := sizes(t)
		siblings := forest(t, amounts, 3)
		supply := supplyFor(t, amounts, siblings)
		tree := plant(siblings)
		tree.Compute([]int64{supply})
		want := oracle(supply, siblings)
		each(siblings, func(n *node) {
			got := tree.Part(n.number, 0)
			if got.Floor != n.floor || got.Share != n.share || got.Usage != n.usage || got.Ceiling != n.most || got.Guarantee != n.guarantee {
				t.Fatalf("queue %d: %+v, want floor %d, share %d, usage %d, most %d, guarantee %d",
					n.number, got, n.floor, n.share, n.usage, n.most, n.guarantee)
			}
		})
		if d := tree.Division(Root, 0); want.Num().Cmp(big.NewInt(d.Rate.P)) != 0 || want.Denom().Cmp(big.NewInt(d.Rate.Q)) != 0 {
			t.Fatalf("a rate of %d/%d, want %s", d.Rate.P, d.Rate.Q, want)
		}
	})
}
