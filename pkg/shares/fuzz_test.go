package shares

import (
	"slices"
	"testing"

	"github.com/tutti-sched/tutti/test/bounds"
)

// bytesPerQueue is how many bytes describe a queue to the fuzz target.
const bytesPerQueue = 6

// fuzzed makes the tree one of at most 200 queues: of each a parent, a weight, and four amounts, each a byte that is multiplied
// or taken as a power of two.
func fuzzed(t *Tree, data []byte, factor int64) {
	t.Reset(1)
	amount := func(b byte) int64 {
		if b >= 192 {
			return 1<<(b-192) - 1 // up to 2⁶³-1
		}
		return int64(b) * factor
	}
	for len(data) >= bytesPerQueue && t.Len() < 200 {
		parent := int(data[0]) % (t.Len() + 1)
		q := t.Add(parent-1, amount(data[1])/max(1, factor))
		t.SetAmounts(q, 0, Amounts{
			Guarantee: amount(data[2]), Limit: amount(255 - data[3]), Usage: amount(data[4]), Demand: amount(data[5]),
		})
		data = data[bytesPerQueue:]
	}
}

// FuzzCompute holds arbitrary trees to the bounds of shares, and finds the same again with buffers that were used before.
func FuzzCompute(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0, 40, 0, 1, 0, 0, 0, 40}, int64(1), int64(16))
	f.Add([]byte{0, 1, 8, 0, 0, 8, 0, 0, 8, 0, 0, 8, 1, 3, 2, 250, 1, 9}, int64(1)<<40, int64(8)<<40)
	f.Add([]byte{0, 255, 255, 0, 255, 255, 1, 255, 255, 0, 255, 255, 1, 0, 255, 0, 255, 255}, int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, data []byte, factor, supply int64) {
		bounds.Hold(t, func() {
			factor %= 1 << 55
			tree := new(Tree)
			fuzzed(tree, data, factor)
			tree.Compute([]int64{supply})
			holdToBounds(t, tree)
			var want []Standing
			for q := range tree.Len() {
				want = append(want, tree.Standing(q, World{0}, []int64{1}))
			}
			other := slices.Clone(data)
			slices.Reverse(other)
			fuzzed(tree, other, factor)
			tree.Compute([]int64{supply})
			fuzzed(tree, data, factor)
			tree.Compute([]int64{supply})
			for q, was := range want {
				if is := tree.Standing(q, World{0}, []int64{1}); is != was || is.Compare(was) != 0 {
					t.Fatalf("queue %d: %+v, then %+v", q, was, is)
				}
			}
		})
	})
}
