package simulation

import (
	"testing"
	"time"
)

// calmPlan is jobs and pods for more capacity than there is, and nothing else, so that what is seen comes of the crash.
func calmPlan(seed uint64) []Step { return calmPlanOf(seed, 14) }

func calmPlanOf(seed uint64, steps int) []Step {
	d := newRandom(seed, "calm plan")
	var plan []Step
	at := time.Second
	for range steps {
		at += d.span(0, 3*time.Second)
		plan = append(plan, Step{At: at, What: pick(d, "submit a job", "submit a job", "submit a pod"), Random: d.Uint64()})
	}
	return plan
}

// mostWrites is how long a run may be of which every write is crashed after.
const mostWrites = 500

// longPlan is one with as many writes as it may have, or a few less.
func longPlan(t *testing.T, filters *Filters, config Config) Config {
	t.Helper()
	var longest Config
	for steps := 20; ; steps++ {
		config.Plan = calmPlanOf(config.Seed, steps)
		if run(t, filters, config).Writes > mostWrites {
			return longest
		}
		longest = config
	}
}

// TestCrashAfterEveryWrite kills the scheduler after each of its writes in turn, from SIM_CRASH_FIRST on and SIM_CRASH_STRIDE
// apart, of runs without other faults; after that everything goes on as if nothing had happened, no gang stays in part for
// longer than the bound, nothing is bound twice and no capacity is lost. The last of several runs, SIM_CRASH_SEEDS in number, is
// as long as may be.
func TestCrashAfterEveryWrite(t *testing.T) { crashAfterWrites(t, Config{}, 2) }

// TestCrashAfterEveryWriteOfQueues does the same with Queues.
func TestCrashAfterEveryWriteOfQueues(t *testing.T) { crashAfterWrites(t, Config{Queues: true}, 1) }

// TestCrashAfterEveryWriteOfForeignGroups does the same with groups of other projects.
func TestCrashAfterEveryWriteOfForeignGroups(t *testing.T) {
	crashAfterWrites(t, Config{Foreign: true}, 1)
}

func crashAfterWrites(t *testing.T, config Config, runs uint64) {
	filters := open(t)
	stride := int(setting(t, "SIM_CRASH_STRIDE", 16))
	from := int(setting(t, "SIM_CRASH_FIRST", 1))
	first, seeds := setting(t, "SIM_SEED", 1), setting(t, "SIM_CRASH_SEEDS", runs)
	crashes, most, part := 0, 0, time.Duration(0)
	for seed := first; seed < first+seeds; seed++ {
		config.Seed, config.Plan, config.Faults, config.Replicas, config.CrashAfterWrite = seed, calmPlan(seed), &Faults{}, 1, 0
		if seed == first+seeds-1 && seeds > 1 {
			config = longPlan(t, filters, config)
		}
		writes := run(t, filters, config).Writes
		most = max(most, writes)
		for after := from; after <= writes; after += stride {
			config.CrashAfterWrite = after
			result := run(t, filters, config)
			crashes++
			part = max(part, result.Partial)
			for _, v := range result.Violations {
				t.Errorf("seed %d, killed after write %d of %d: %s", seed, after, writes, v)
			}
			if result.Lives != 2 {
				t.Errorf("seed %d, killed after write %d of %d: %d lives", seed, after, writes, result.Lives)
			}
		}
	}
	t.Logf("%d crashes, each after another write, in %d runs of up to %d writes; part of a gang was bound for %s at the longest", crashes, seeds,
		most, part)
}
