package shares

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// compute returns the tree of one resource.
func compute(supply int64, siblings []*node) *Tree {
	tree := plant(siblings)
	tree.Compute([]int64{supply})
	return tree
}

// failing is what rapid's and testing's have in common.
type failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// holdToBounds checks each set of siblings: floors and shares lie within what is asked for, floors add up to no more than there
// is, shares to no more than one unit each beyond it, and all is divided where not all can have what they ask for.
func holdToBounds(t failing, tree *Tree) {
	t.Helper()
	for parent := Root; parent < tree.Len(); parent++ {
		for r := range tree.resources {
			floors, shares, asked, held := new(big.Int), new(big.Int), new(big.Int), new(big.Int)
			n := int64(0)
			for i := range tree.Len() {
				if tree.queues[i].parent != parent {
					continue
				}
				p := tree.Part(i, r)
				if n++; p.Floor < 0 || p.Floor > p.Share || p.Share > p.Ceiling {
					t.Fatalf("queue %d: %+v", i, p)
				}
				floors.Add(floors, big.NewInt(p.Floor))
				shares.Add(shares, big.NewInt(p.Share))
				asked.Add(asked, big.NewInt(p.Ceiling))
				held.Add(held, big.NewInt(max(p.Usage, p.Ceiling)))
			}
			d := tree.Division(parent, r)
			supply := big.NewInt(d.Supply)
			most := new(big.Int).Add(supply, big.NewInt(n-1))
			switch {
			case n == 0:
			case floors.Cmp(supply) > 0:
				t.Fatalf("the floors below %d are more than %d", parent, d.Supply)
			case shares.Cmp(most) > 0:
				t.Fatalf("the shares below %d are more than %d and one for each of %d", parent, d.Supply, n)
			case asked.Cmp(supply) > 0 && !d.Scaled && shares.Cmp(supply) < 0:
				t.Fatalf("the shares below %d are less than %d, and %d ask for more", parent, d.Supply, n)
			case d.Contended != (held.Cmp(supply) > 0):
				t.Fatalf("contended below %d is %t, where %d is held and asked for of %d", parent, d.Contended, held, supply)
			case d.Rate.P < 0 || d.Rate.Q <= 0:
				t.Fatalf("a rate of %d/%d below %d", d.Rate.P, d.Rate.Q, parent)
			}
		}
	}
}

// TestSharesLieWithinTheirBounds is invariant Q1.
func TestSharesLieWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := sizes(t)
		siblings := forest(t, amounts, 4)
		holdToBounds(t, compute(supplyFor(t, amounts, siblings), siblings))
	})
}

// TestNoSumOverflows is invariant I19: it has amounts of which two are more than an int64 can hold.
func TestNoSumOverflows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := rapid.OneOf(rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(0, math.MaxInt64), rapid.Int64Range(math.MinInt64, 3))
		tree := new(Tree)
		tree.Reset(1)
		for i := range rapid.IntRange(1, 12).Draw(t, "queues") {
			q := tree.Add(rapid.IntRange(Root, i-1).Draw(t, "parent"), rapid.Int64().Draw(t, "weight"))
			tree.SetAmounts(q, 0, Amounts{
				Guarantee: amounts.Draw(t, "guarantee"), Limit: amounts.Draw(t, "limit"), Usage: amounts.Draw(t, "usage"), Demand: amounts.Draw(t, "demand"),
			})
		}
		tree.Compute([]int64{amounts.Draw(t, "supply")})
		holdToBounds(t, tree)
		for i := range tree.Len() {
			parent := tree.queues[i].parent
			if parent == Root {
				continue
			}
			if p, of := tree.Part(i, 0), tree.Part(parent, 0); of.Usage < p.Usage || of.Demand < p.Ceiling || of.Guarantee < p.Guarantee {
				t.Fatalf("queue %d: %+v, its parent: %+v", i, p, of)
			}
		}
	})
}

// TestLargestSetOfSiblings is invariant Q3: it is exact with 10,000 siblings, 2⁵⁰ each, of the largest weight: the sums are
// beyond an int64.
func TestLargestSetOfSiblings(t *testing.T) {
	const n, each = 10_000, int64(1) << 50
	for _, c := range []struct {
		guarantee, supply, floor, share int64
	}{
		{guarantee: 0, supply: math.MaxInt64, floor: 0, share: math.MaxInt64/n + 1},
		{guarantee: each, supply: math.MaxInt64, floor: math.MaxInt64 / n, share: math.MaxInt64 / n},
		{guarantee: each / 2, supply: n*(each/2) + 1, floor: each / 2, share: each/2 + 1},
		{guarantee: each / 2, supply: n * (each / 2), floor: each / 2, share: each / 2},
		{guarantee: each / 2, supply: n*(each/2) - 1, floor: each/2 - 1, share: each/2 - 1},
	} {
		tree := new(Tree)
		tree.Reset(1)
		for range n {
			tree.SetAmounts(tree.Add(Root, MaxWeight), 0, Amounts{Guarantee: c.guarantee, Limit: NoLimit, Demand: each})
		}
		tree.Compute([]int64{c.supply})
		for i := range n {
			if p := tree.Part(i, 0); p.Floor != c.floor || p.Share != c.share {
				t.Fatalf("queue %d of %+v: %+v", i, c, p)
			}
		}
	}
}

// TestSharesAreMonotone is invariant Q2: it changes one number of one queue, or the supply. More never lowers the queue's own
// share, or that of a queue above it; it never raises the share of a sibling of the topmost of these, nor of a queue below such
// a sibling.
func TestSharesAreMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := sizes(t)
		siblings := forest(t, amounts, 3)
		supply := supplyFor(t, amounts, siblings)
		var all []*node
		each(siblings, func(n *node) { all = append(all, n) })
		changed := rapid.SampledFrom(all).Draw(t, "changed")
		before := compute(supply, siblings)
		number := changed.number
		more := amounts.Draw(t, "more")
		what := rapid.SampledFrom([]string{"supply", "demand", "weight", "guarantee"}).Draw(t, "what")
		switch what {
		case "supply":
			supply += more
		case "demand":
			changed.amounts.Demand += more
		case "weight":
			changed.weight += more
		case "guarantee":
			changed.amounts.Guarantee += more
		}
		after := compute(supply, siblings)
		own := map[int]bool{}
		for at := number; at != Root; at = after.queues[at].parent {
			own[at] = true
		}
		for i := range after.Len() {
			was, is := before.Part(i, 0).Share, after.Part(i, 0).Share
			top := i
			for after.queues[top].parent != Root {
				top = after.queues[top].parent
			}
			switch {
			case is < was && (what == "supply" || own[i]):
				t.Fatalf("%d more %s of queue %d: the share of queue %d falls from %d to %d", more, what, number, i, was, is)
			case is > was && what != "supply" && !own[top]:
				t.Fatalf("%d more %s of queue %d: the share of queue %d rises from %d to %d", more, what, number, i, was, is)
			}
		}
	})
}

// TestSharesDoNotDependOnOrder is invariant Q3: it adds the children of each queue in another order.
func TestSharesDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amounts := sizes(t)
		siblings := forest(t, amounts, 3)
		supply := supplyFor(t, amounts, siblings)
		first := compute(supply, siblings)
		type found struct {
			part  Part
			level Level
		}
		want := map[*node]found{}
		each(siblings, func(n *node) { want[n] = found{first.Part(n.number, 0), first.Level(n.number, 0, 1)} })
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		shuffle := func(siblings []*node) {
			random.Shuffle(len(siblings), func(i, j int) { siblings[i], siblings[j] = siblings[j], siblings[i] })
		}
		shuffle(siblings)
		each(siblings, func(n *node) { shuffle(n.children) })
		second := plant(siblings)
		second.Compute([]int64{supply})
		each(siblings, func(n *node) {
			if got := (found{second.Part(n.number, 0), second.Level(n.number, 0, 1)}); got != want[n] {
				t.Fatalf("a queue of weight %d: %+v, in another order %+v", n.weight, want[n], got)
			}
		})
	})
}
