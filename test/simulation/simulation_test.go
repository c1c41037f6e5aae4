package simulation

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Filters {
	t.Helper()
	filters, err := OpenFilters()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(filters.Close)
	return filters
}

// setting is a number of the environment, or what it is without.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func run(t *testing.T, filters *Filters, config Config) *Result {
	t.Helper()
	result, err := Run(filters, config)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestSimulation plays seed after seed, from SIM_SEED on, until SIM_STEPS steps have been made.
func TestSimulation(t *testing.T) { playSeeds(t, Config{}) }

// TestSimulationOfQueues does the same with Queues.
func TestSimulationOfQueues(t *testing.T) { playSeeds(t, Config{Queues: true}) }

// TestSimulationOfForeignGroups does the same with groups of other projects, of every second cluster with Queues, for more steps.
func TestSimulationOfForeignGroups(t *testing.T) { playSeeds(t, Config{Foreign: true}) }

// TestSimulationOfTopologies does the same with levels, of every third cluster with Queues, of every third with groups of other
// projects.
func TestSimulationOfTopologies(t *testing.T) { playSeeds(t, Config{Topology: true}) }

// TestSimulationOfDevices does the same with devices, of every third cluster with Queues, of every third with levels.
func TestSimulationOfDevices(t *testing.T) { playSeeds(t, Config{Devices: true}) }

func playSeeds(t *testing.T, config Config) {
	filters := open(t)
	steps := uint64(25_000)
	if config.Foreign {
		steps = 40_000
	}
	first, want := setting(t, "SIM_SEED", 1), setting(t, "SIM_STEPS", steps)
	var sum Result
	seed := first
	for ; uint64(sum.Steps) < want; seed++ {
		config.Seed = seed
		switch {
		case config.Devices:
			config.Queues, config.Topology = seed%3 == 1, seed%3 == 2
		case config.Topology:
			config.Queues, config.Foreign = seed%3 == 1, seed%3 == 2
		case config.Foreign:
			config.Queues = seed%2 == 0
		}
		result := run(t, filters, config)
		sum.Steps += result.Steps
		sum.Writes += result.Writes
		sum.Lives += result.Lives
		sum.Bound += result.Bound
		sum.Evicted += result.Evicted
		sum.Guaranteed += result.Guaranteed
		sum.Shared += result.Shared
		sum.Span += result.Span
		if len(result.Violations) > 0 {
			sum.Violations = append(sum.Violations, result.Violations...)
			t.Error(failure(t, filters, config, result))
		}
		if len(sum.Violations) > 10 {
			break
		}
	}
	t.Logf("%d steps of %d clusters, seeds %d to %d: %d lives, %d writes, %d bound, %d evicted (%d and %d by the rights of queues), %s of virtual time; violations: %d",
		sum.Steps, seed-first, first, seed-1, sum.Lives, sum.Writes, sum.Bound, sum.Evicted, sum.Guaranteed, sum.Shared, sum.Span, len(sum.Violations))
}

// failure tells what is broken, how to see it again, and what is left of it when it is shrunk.
func failure(t *testing.T, filters *Filters, config Config, result *Result) string {
	t.Helper()
	t.Logf("seed %d: %s; shrinking", config.Seed, result.Violations[0])
	small, less, err := Shrink(filters, config, result, 1+2_000_000/max(1, result.Steps)/20) // a few seconds
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, v := range result.Violations {
		fmt.Fprintf(&b, "seed %d: %s\n", config.Seed, v)
	}
	fmt.Fprintf(&b, "replay: SIM_SEED=%d SIM_QUEUES=%d SIM_FOREIGN=%d SIM_TOPOLOGY=%d SIM_DEVICES=%d go test ./test/simulation -run '^TestReplay$' -v\n", config.Seed,
		map[bool]int{true: 1}[config.Queues], map[bool]int{true: 1}[config.Foreign], map[bool]int{true: 1}[config.Topology],
		map[bool]int{true: 1}[config.Devices])
	fmt.Fprintf(&b, "shrunk from %d steps of the plan to %d, %d replicas, faults %+v:\n", len(result.Plan), len(small.Plan), small.Replicas, *small.Faults)
	for _, step := range small.Plan {
		fmt.Fprintf(&b, "  {At: %d, What: %q, Random: %d},\n", step.At, step.What, step.Random)
	}
	fmt.Fprintf(&b, "  %s", less.Violations[0])
	return b.String()
}

// TestReplay plays one seed, SIM_SEED, with Queues if SIM_QUEUES=1, with groups of other projects if SIM_FOREIGN=1, with levels
// if SIM_TOPOLOGY=1, with devices if SIM_DEVICES=1, and with -v prints everything that happens; with SIM_SHRINK=1 what is left
// when it is shrunk.
func TestReplay(t *testing.T) {
	filters := open(t)
	config := Config{
		Seed: setting(t, "SIM_SEED", 1), Queues: setting(t, "SIM_QUEUES", 0) > 0, Foreign: setting(t, "SIM_FOREIGN", 0) > 0,
		Topology: setting(t, "SIM_TOPOLOGY", 0) > 0, Devices: setting(t, "SIM_DEVICES", 0) > 0,
	}
	if setting(t, "SIM_SHRINK", 0) > 0 {
		if result := run(t, filters, config); len(result.Violations) > 0 {
			config, _, _ = Shrink(filters, config, result, 1000)
		}
	}
	if testing.Verbose() {
		config.Trace = os.Stdout
	}
	for _, v := range run(t, filters, config).Violations {
		t.Error(v)
	}
}

// TestSameSeedSameTrace is I21: the same seed leads to the same trace, also when it is played after others. The last one has
// levels, which is T3.
func TestSameSeedSameTrace(t *testing.T) {
	filters := open(t)
	traces := map[string]string{}
	for range 2 {
		for seed := uint64(100); seed < 105; seed++ {
			var trace strings.Builder
			result := run(t, filters, Config{Seed: seed, Topology: seed == 104, Trace: &trace})
			name := fmt.Sprint(seed)
			if before, known := traces[name]; known && before != trace.String() {
				t.Errorf("seed %s: the second trace differs from line %s on", name, firstDifference(before, trace.String()))
			}
			traces[name] = trace.String()
			if len(trace.String()) < 1000 || result.Hash == 0 {
				t.Errorf("seed %s: a trace of %d bytes", name, trace.Len())
			}
		}
	}
	if traces["100"] == traces["101"] {
		t.Error("two seeds lead to the same trace")
	}
}

func firstDifference(a, b string) string {
	before, after := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(before), len(after)) {
		if before[i] != after[i] {
			return fmt.Sprintf("%d:\n%s\n%s", i, before[i], after[i])
		}
	}
	return "the end"
}
