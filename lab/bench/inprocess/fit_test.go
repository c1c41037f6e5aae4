package inprocess

import (
	"math"
	"strings"
	"testing"
	"time"
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

func TestMarkdownShowsGoalsAndExponents(t *testing.T) {
	row := func(table Table, existing int, took, goal time.Duration) Result {
		w := identical(100, existing, 200, 50)
		return Result{Case: Case{Table: table, Measure: First, Workload: w, Goal: goal}, Took: took, Fastest: took, Binds: 200}
	}
	results := []Result{
		row(Goals, 0, 20*time.Millisecond, 30*time.Millisecond), row(Goals, 0, 40*time.Millisecond, 30*time.Millisecond),
		row(Existing, 0, time.Second, 0), row(Existing, 10, time.Second, 0), row(Existing, 1000, 10*time.Second, 0),
	}
	queued := row(Queued, 0, 0, 0)
	queued.Case.Workload.Queues = 10
	queued.Processor, queued.Live = 1080*time.Millisecond, 107<<20
	queued.Without = &Result{Processor: time.Second, Live: 100 << 20}
	results = append(results, queued)
	text, pictures := Markdown(results), Pictures(results)
	for _, want := range []string{
		"≤ 30ms | yes | 10000 |", "≤ 30ms | **no** | 5000 |", "Exponent of the cycle's time, fastest rounds: 0.50; goal ≤ 0.10; met: **no**.",
		"(cycle-existing-pods.svg)", "identical, 10 queues | 50 | 100 | 1s | 1.08s | 1.080 | ≤ 1.10 | yes |",
		"| 100.0 MB | 107.0 MB | 1.070 | ≤ 1.05 | **no** |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(pictures) != 1 || pictures["cycle-existing-pods.svg"] == "" {
		t.Errorf("%d pictures", len(pictures))
	}
}
