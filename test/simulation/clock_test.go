package simulation

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/internal/commit"
)

// This file judges what takes two runs to be seen: that the same comes of the same, whatever the order of maps (I21) and
// whatever the clock on the wall shows (I28).

// decisions keeps, of a trace, what was decided and when.
type decisions struct{ strings.Builder }

func (d *decisions) Write(line []byte) (int, error) {
	if strings.Contains(string(line), " decides ") {
		d.Builder.Write(line)
	}
	return len(line), nil
}

// traceOf returns a hash of everything that happens.
func traceOf(t *testing.T, filters *Filters, simulated Config) string {
	t.Helper()
	sum := fnv.New64a()
	simulated.Trace = io.Writer(sum)
	run(t, filters, simulated)
	return fmt.Sprint(sum.Sum64())
}

// decisionsOf returns what is decided, and when.
func decisionsOf(t *testing.T, filters *Filters, simulated Config) string {
	t.Helper()
	var kept decisions
	simulated.Trace = &kept
	run(t, filters, simulated)
	return kept.String()
}

// whimsical writes about the first pod that a map happens to name.
func whimsical(p *process) {
	for _, one := range p.told[kindPod] {
		pod := refOf(one.object.(*corev1.Pod))
		p.machine.Write(p.clock.Now(), &commit.PodCondition{Pod: pod, Condition: corev1.PodCondition{Type: "Whim"}})
		return
	}
}

// TestTheOrderOfAMapIsSeen is the planted bug of I21, which TestSameSeedSameTrace is to find.
func TestTheOrderOfAMapIsSeen(t *testing.T) {
	filters := open(t)
	first := ""
	for range 20 {
		trace := traceOf(t, filters, Config{Seed: 1, Plan: calmPlan(1), Faults: &Faults{}, Replicas: 1, Sabotage: FaultInjection{Rogue: whimsical}})
		if first == "" {
			first = trace
		}
		if trace != first {
			return
		}
	}
	t.Error("what the order of a map decides is the same in twenty runs")
}

// TestClocksChangeNoDecision is I28: what is decided, and when, is the same whatever the clocks of the schedulers show, where
// no job waits for so long that capacity is reserved, and no pod is so late to go that it counts as stuck: that follows from
// its deletion's time, and a clock may move it, as it may any expiry.
func TestClocksChangeNoDecision(t *testing.T) {
	filters := open(t)
	first, decided := setting(t, "SIM_SEED", 1), 0
	for seed := first; seed < first+setting(t, "SIM_CLOCK_SEEDS", 6); seed++ {
		simulated := Config{Seed: seed, Plan: calmPlan(seed), Faults: &Faults{}, Replicas: 1, Scheduler: config.DefaultYAML(), Punctual: true}
		want := decisionsOf(t, filters, simulated)
		decided += len(want) - 100 // a seed of which hardly anything is decided counts against the others
		for _, ahead := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
			simulated.Ahead = ahead
			if got := decisionsOf(t, filters, simulated); got != want {
				t.Errorf("seed %d, clocks ahead by %s: decisions differ from line %s on", seed, ahead, firstDifference(want, got))
			}
		}
	}
	if decided < 0 {
		t.Error("hardly anything is decided")
	}
}

// TestAClockOnTheWallIsSeen is the planted bug of I28: a scheduler that believes pods to be older than they are.
func TestAClockOnTheWallIsSeen(t *testing.T) {
	filters := open(t)
	simulated := Config{Seed: 1, Plan: calmPlan(1), Faults: &Faults{}, Replicas: 1, Scheduler: config.DefaultYAML()}
	simulated.Sabotage = evictPair(func(p *process, running, waiting *corev1.Pod) bool {
		return *running.Spec.Priority < *waiting.Spec.Priority && p.clock.Since(running.CreationTimestamp.Time) > time.Hour
	})
	want := decisionsOf(t, filters, simulated)
	simulated.Ahead = 24 * time.Hour
	simulated.Sabotage = evictPair(func(p *process, running, waiting *corev1.Pod) bool {
		return *running.Spec.Priority < *waiting.Spec.Priority && p.clock.Since(running.CreationTimestamp.Time) > time.Hour
	})
	if got := decisionsOf(t, filters, simulated); got == want {
		t.Error("not seen")
	}
}
