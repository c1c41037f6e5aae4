package framework

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTournament: whatever nodes entered with, in whatever order and how often, the best is known, and all can be had in order.
func TestTournament(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := rapid.SampledFrom([]int{0, 1, 2, 7, 8, 9, 63, 64, 65, 513, 600}).Draw(t, "nodes")
		tournament, sums := newTournament(nodes), make([]int64, nodes)
		for i := range sums {
			sums[i] = infeasible
		}
		for range rapid.IntRange(0, 5).Draw(t, "rounds") {
			for range rapid.IntRange(0, 2*nodes).Draw(t, "enter") {
				position := rapid.IntRange(0, nodes-1).Draw(t, "position")
				sums[position] = rapid.SampledFrom([]int64{infeasible, infeasible + 1, -1, 0, 1, 2, maxSum}).Draw(t, "sum")
				tournament.set(position, sums[position])
			}
			tournament.rebuild()
			want := inOrder(sums)
			if got := slices.Collect(tournament.descending()); !slices.Equal(got, want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if best, ok := tournament.best(); ok != (len(want) > 0) || ok && best != want[0] {
				t.Fatalf("the best is %d, %t; want the first of %v", best, ok, want)
			}
		}
	})
}

// inOrder sorts the positions of those that are not barred.
func inOrder(sums []int64) (positions []int) {
	for i, sum := range sums {
		if sum != infeasible {
			positions = append(positions, i)
		}
	}
	slices.SortStableFunc(positions, func(a, b int) int { return cmp.Compare(sums[b], sums[a]) })
	return positions
}
