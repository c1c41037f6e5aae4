package engine

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
			skipLosers(t, &tournament, sums)
		}
	})
}

// skipLosers skips of some positions what is said to have no sum above a limit.
func skipLosers(t *rapid.T, tournament *winnerTree, sums []int64) {
	limit := rapid.SampledFrom([]int64{infeasible, -1, 1, maxSum}).Draw(t, "limit")
	var positions []int
	for i := range sums {
		if rapid.IntRange(0, 50).Draw(t, "left out") > 0 {
			positions = append(positions, i)
		}
	}
	all := len(positions) == len(sums) && !slices.ContainsFunc(sums, func(sum int64) bool { return sum > limit })
	if all && len(sums) >= group && tournament.below(positions, limit) < group {
		t.Fatalf("of %v none is above %d", sums, limit)
	}
	for rest := positions; len(rest) > 0; {
		skipped := tournament.below(rest, limit)
		for _, position := range rest[:skipped] {
			if sums[position] > limit {
				t.Fatalf("%d of %v are skipped below %d, with the sum %d", skipped, rest, limit, sums[position])
			}
		}
		rest = rest[max(1, skipped):]
	}
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
