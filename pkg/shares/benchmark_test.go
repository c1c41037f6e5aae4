package shares

import (
	"math/rand/v2"
	"testing"
)

const benchmarkResources = 6

// fourLevels is a tree of 1,000 queues in 4 levels, in which most sets of siblings ask for more than there is.
func fourLevels(random *rand.Rand) (t *Tree, supply []int64) {
	t = new(Tree)
	t.Reset(benchmarkResources)
	addFourLevels(t, random)
	for range benchmarkResources {
		supply = append(supply, 80_000)
	}
	return t, supply
}

func addFourLevels(t *Tree, random *rand.Rand) {
	var parents [4][]int
	for level, size := range []int{10, 60, 230, 700} {
		for range size {
			parent := Root
			if level > 0 {
				parent = parents[level-1][random.IntN(len(parents[level-1]))]
			}
			q := t.Add(parent, random.Int64N(5))
			parents[level] = append(parents[level], q)
			for r := range benchmarkResources {
				a := Amounts{Limit: NoLimit, Guarantee: random.Int64N(40)}
				if random.IntN(4) == 0 {
					a.Limit = 40 + random.Int64N(1000)
				}
				if level == 3 {
					a.Usage = random.Int64N(200)
					a.Demand = a.Usage + random.Int64N(200)
				}
				t.SetAmounts(q, r, a)
			}
		}
	}
}

// BenchmarkCompute computes the shares of 1,000 queues and six resources.
func BenchmarkCompute(b *testing.B) {
	tree, supply := fourLevels(rand.New(rand.NewPCG(1, 1)))
	b.ReportAllocs()
	for b.Loop() {
		supply[0]++ // else there is nothing to compute
		tree.Compute(supply)
	}
	filled := 0
	for parent := Root; parent < tree.Len(); parent++ {
		for r := range benchmarkResources {
			if d := tree.Division(parent, r); d.Contended && !d.Scaled {
				filled++
			}
		}
	}
	b.ReportMetric(float64(filled), "filled")
}

// BenchmarkSiblings has 10,000 queues of one parent.
func BenchmarkSiblings(b *testing.B) {
	tree := manySiblings(rand.New(rand.NewPCG(1, 1)), 10_000)
	supply := []int64{10_000 << 48}
	b.ReportAllocs()
	for b.Loop() {
		supply[0]++
		tree.Compute(supply)
	}
}

func manySiblings(random *rand.Rand, n int) *Tree {
	t := new(Tree)
	t.Reset(1)
	for range n {
		q := t.Add(Root, random.Int64N(MaxWeight+1))
		t.SetAmounts(q, 0, Amounts{Guarantee: random.Int64N(1 << 47), Limit: NoLimit, Demand: random.Int64N(1<<50 + 1)})
	}
	return t
}

// BenchmarkStanding compares a queue with its siblings, in one world of two resources.
func BenchmarkStanding(b *testing.B) {
	tree, supply := fourLevels(rand.New(rand.NewPCG(1, 1)))
	tree.Compute(supply)
	changes := []int64{1, 1}
	b.ReportAllocs()
	queue := 0
	for b.Loop() {
		s, o := tree.Standing(queue, World{0, 1}, changes), tree.Standing((queue+1)%tree.Len(), World{0, 1}, nil)
		s.Compare(o)
		queue = (queue + 1) % tree.Len()
	}
}
