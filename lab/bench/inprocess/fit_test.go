package inprocess

import (
	"math"
	"testing"
)

func TestExponent(t *testing.T) {
	sizes := []float64{1000, 5000, 10_000, 20_000}
	for _, want := range []float64{0, 0.1, 1, 2} {
		costs := make([]float64, len(sizes))
		for i, size := range sizes {
			costs[i] = 0.003 * math.Pow(size, want)
		}
		if got, err := Exponent(sizes, costs); err != nil || math.Abs(got-want) > 1e-9 {
			t.Errorf("exponent %g, %v; want %g", got, err, want)
		}
	}
	// Least squares: these lie around cost = size.
	if got, err := Exponent([]float64{1, 10, 100}, []float64{2, 10, 50}); err != nil || math.Abs(got-math.Log10(5)) > 0.01 {
		t.Errorf("exponent %g, %v", got, err)
	}
}

func TestExponentNeedsSizesThatDiffer(t *testing.T) {
	for name, c := range map[string][2][]float64{
		"one point": {{5}, {1}}, "one size": {{5, 5}, {1, 2}}, "size zero": {{0, 5}, {1, 2}},
		"cost zero": {{1, 5}, {0, 2}}, "a cost is missing": {{1, 5}, {1}}, "nothing": {},
	} {
		if got, err := Exponent(c[0], c[1]); err == nil {
			t.Errorf("%s: %g and no error", name, got)
		}
	}
}
