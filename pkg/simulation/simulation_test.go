package simulation

import (
	"os"
	"strconv"
	"testing"
)

func TestSeeds(t *testing.T) {
	filters, err := OpenFilters()
	if err != nil {
		t.Fatal(err)
	}
	defer filters.Close()
	first, count := uint64(1), uint64(10)
	if text := os.Getenv("SEED"); text != "" {
		first, _ = strconv.ParseUint(text, 10, 64)
		count = 1
	}
	if text := os.Getenv("SEEDS"); text != "" {
		count, _ = strconv.ParseUint(text, 10, 64)
	}
	steps, bound, evicted := 0, 0, 0
	for seed := first; seed < first+count; seed++ {
		config := Config{Seed: seed}
		if os.Getenv("TRACE") != "" {
			config.Trace = os.Stdout
		}
		result, err := Run(filters, config)
		if err != nil {
			t.Fatal(err)
		}
		steps += result.Steps
		bound += result.Bound
		evicted += result.Evicted
		for _, v := range result.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
	t.Logf("%d steps, %d bound, %d evicted", steps, bound, evicted)
}
