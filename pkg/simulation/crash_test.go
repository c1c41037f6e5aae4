package simulation

import (
	"testing"
	"time"
)

// calmPlan is jobs and pods for more room than there is, and nothing else, so that what is seen comes of the crash.
func calmPlan(seed uint64) []Step {
	d := newDice(seed, "calm plan")
	var plan []Step
	at := time.Second
	for range 14 {
		at += d.span(0, 3*time.Second)
		plan = append(plan, Step{At: at, What: pick(d, "submit a job", "submit a job", "submit a pod"), Dice: d.Uint64()})
	}
	return plan
}

// TestCrashAfterEveryWrite kills the scheduler after each of its writes in turn, SIM_CRASH_STRIDE apart, of runs without other faults;
// after that everything goes on as if nothing had happened, no gang stays in part, nothing is bound twice and no room is lost.
func TestCrashAfterEveryWrite(t *testing.T) {
	filters := open(t)
	stride := int(setting(t, "SIM_CRASH_STRIDE", 16))
	first := setting(t, "SIM_SEED", 1)
	crashes, most := 0, 0
	for seed := first; seed < first+setting(t, "SIM_CRASH_SEEDS", 2); seed++ {
		config := Config{Seed: seed, Plan: calmPlan(seed), Faults: &Faults{}, Replicas: 1}
		writes := run(t, filters, config).Writes
		most = max(most, writes)
		for after := 1; after <= min(writes, 500); after += stride {
			config.CrashAfterWrite = after
			result := run(t, filters, config)
			crashes++
			for _, v := range result.Violations {
				t.Errorf("seed %d, killed after write %d of %d: %s", seed, after, writes, v)
			}
			if result.Lives != 2 {
				t.Errorf("seed %d, killed after write %d of %d: %d lives", seed, after, writes, result.Lives)
			}
		}
	}
	t.Logf("%d crashes, each after another write, of up to %d", crashes, most)
}
