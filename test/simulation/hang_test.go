package simulation

import (
	"testing"
	"time"

	"github.com/tutti-sched/tutti/internal/lease"
)

// hangs lets the first leader hang in a step at that time, and notes which process decides next, and when.
type hangs struct {
	at   time.Duration
	hung *process
	// since is when it hung, next when the first step of another leader followed.
	since, next time.Time
}

func (h *hangs) step(p *process) bool {
	switch {
	case h.hung == nil && p.queue.now.Sub(p.began) >= h.at:
		h.hung, h.since = p, p.queue.now
		return true
	case h.hung != nil && p != h.hung && h.next.IsZero():
		h.next = p.queue.now
	}
	return false
}

// TestAHangingLoopHandsOver: when a step of the leader does not end, as with a plugin that does not return, another replica leads
// within the limit of a step, the Lease and five seconds. All else holds as after any crash.
func TestAHangingLoopHandsOver(t *testing.T) {
	filters := open(t)
	first := setting(t, "SIM_SEED", 1)
	for seed := first; seed < first+setting(t, "SIM_HANG_SEEDS", 4); seed++ {
		h := &hangs{at: time.Duration(5+seed) * time.Second}
		result := run(t, filters, Config{
			Seed: seed, Plan: calmPlan(seed), Faults: &Faults{}, Replicas: 2, Sabotage: FaultInjection{Hang: h.step},
		})
		for _, v := range result.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		switch took := h.next.Sub(h.since); {
		case h.hung == nil || h.next.IsZero():
			t.Errorf("seed %d: no leader hung, or none followed", seed)
		case took < stepLimit || took > stepLimit+lease.Duration+5*time.Second:
			t.Errorf("seed %d: the next leader decides %s after the last one hung", seed, took)
		}
		if result.Lives != 3 {
			t.Errorf("seed %d: %d lives, want one more than there are replicas", seed, result.Lives)
		}
	}
}

// TestAFrozenLoopIsNotStuck: a process that stood still in its step for longer than the limit loses its Lease, and ends once.
func TestAFrozenLoopIsNotStuck(t *testing.T) {
	filters := open(t)
	frozen := false
	result := run(t, filters, Config{
		Seed: 1, Plan: calmPlan(1), Faults: &Faults{}, Replicas: 1, Sabotage: FaultInjection{Rogue: func(p *process) {
			if !frozen && p.queue.now.Sub(p.began) > 5*time.Second {
				frozen = true
				p.freeze(3*stepLimit, false)
			}
		}},
	})
	for _, v := range result.Violations {
		t.Error(v)
	}
	if result.Lives != 2 {
		t.Errorf("%d lives, want 2", result.Lives)
	}
}
