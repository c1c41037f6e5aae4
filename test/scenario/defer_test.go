package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// burst plays cycles and keeps the rules for jobs that come together with jobs of higher priority.
type burst struct {
	*fight
	// refused are the jobs for which the last cycle found no capacity, not even some that is being released.
	refused map[model.JobKey]bool
	// bound are the pods that it bound.
	bound map[string]bool
	// released reports that it released nominations, which changes what other jobs find.
	released bool
	// late counts the cycles in which a job started after pods had been evicted for another one.
	late int
}

// cycle plays one; still says that nothing has happened since the last one.
//
// Invariant: a job starts before the evictions for a job above it only if it has begun before. No pod is evicted right after
// the start for a job that had no capacity already, unless nominations were released in between.
func (b *burst) cycle(t rapid.TB, still bool) *outcome {
	begun := map[model.JobKey]bool{} // such jobs come before all others
	for _, pod := range b.stage.world.pods {
		if pod.Spec.NodeName != "" {
			begun[b.stage.jobOf(pod)] = true
		}
	}
	o := b.stage.goOn(t)
	refused, bound := map[model.JobKey]bool{}, map[string]bool{}
	for job, refusal := range o.refusals {
		refused[job] = refusal.Evictable && refusal.Code != model.WaitingForVictims
	}
	started, evicting := []model.JobKey(nil), false
	for _, d := range o.decisions {
		for _, e := range d.Evictions {
			if name := key(e.Pod.Namespace, e.Pod.Name); still && !b.released && b.bound[name] && b.refused[d.Job] {
				t.Fatalf("%s is evicted for %s, which waited already when it was bound:\n%s", name, d.Job, o)
			}
		}
		for _, before := range started {
			if len(d.Evictions) > 0 && b.stage.priorityOfJob(before) < b.stage.priorityOfJob(d.Job) {
				t.Fatalf("%s starts before pods are evicted for %s:\n%s", before, d.Job, o)
			}
		}
		if len(d.Binds) == 0 || begun[d.Job] {
			evicting = evicting || len(d.Evictions) > 0
			continue
		}
		if started = append(started, d.Job); evicting {
			b.late++
		}
		for _, bind := range d.Binds {
			bound[key(bind.Pod.Namespace, bind.Pod.Name)] = true
		}
	}
	b.refused, b.bound, b.released = refused, bound, slices.ContainsFunc(o.decisions, func(d model.Decision) bool {
		return slices.ContainsFunc(d.Nominations, func(n model.Nomination) bool { return n.Node == "" })
	})
	if err := b.stage.confirm(); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestLowerJobsStartAfterHigherOnesArePlannedFor on random clusters where jobs of several priorities come in bursts.
func TestLowerJobsStartAfterHigherOnesArePlannedFor(t *testing.T) {
	newStage := openLister(t)
	late := 0
	rapid.Check(t, func(t *rapid.T) {
		b := &burst{fight: &fight{random: &random{t: t}, stage: newStage()}}
		var lines []string
		for i := range b.n(1, 3) {
			cpu := b.n(2, 6)
			lines = append(lines, fmt.Sprintf("node n%d cpu=%d", i, cpu))
			for j := range b.n(0, cpu) {
				lines = append(lines, fmt.Sprintf("pod run%d-%d cpu=1 node=n%d phase=Running priority=%d", i, j, i, b.n(0, 2)))
			}
		}
		if err := b.stage.world.apply(strings.Join(lines, "\n")); err != nil {
			t.Fatal(err)
		}
		still := false
		for range b.n(1, 5) {
			if b.n(0, 2) > 0 {
				for range b.n(1, 4) {
					b.names++
					members := b.n(1, 3)
					if err := b.stage.world.apply(fmt.Sprintf("group g%03d min=%d\npods g%03d-{1..%d} group=g%03d cpu=%d priority=%d",
						b.names, b.n(1, members), b.names, members, b.names, b.n(1, 4), b.n(1, 4))); err != nil {
						t.Fatal(err)
					}
				}
				still = false
			}
			b.cycle(t, still)
			still = true
			if b.n(0, 2) == 0 {
				if err := b.happen(); err != nil {
					t.Fatal(err)
				}
				still = false
			}
		}
		late += b.late
	})
	t.Logf("%d times a job started behind evictions", late)
	if late == 0 {
		t.Error("no job was deferred: this tests nothing")
	}
}

// TestConstantChangeDelaysNoJobThatFits: in each cycle the cluster changes, and jobs of higher priority come for which there
// are possible victims and no plan.
func TestConstantChangeDelaysNoJobThatFits(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		b := &burst{fight: &fight{random: &random{t: t}, stage: newStage()}}
		if err := b.stage.world.apply("node n0 cpu=40\nnode n1 cpu=40\npod run cpu=1 node=n0 phase=Running priority=0"); err != nil {
			t.Fatal(err)
		}
		for range b.n(1, 8) {
			b.names++
			text := fmt.Sprintf("pod run%d cpu=100m node=n%d phase=Running priority=%d", b.names, b.n(0, 1), b.n(0, 1))
			for i := range b.n(0, 3) {
				text += fmt.Sprintf("\npod high%d-%d cpu=%d priority=%d", b.names, i, b.n(41, 43), b.n(10, 12))
			}
			for i := range b.n(0, 2) {
				text += fmt.Sprintf("\npod low%d-%d cpu=1 priority=%d", b.names, i, b.n(1, 9))
			}
			if err := b.stage.world.apply(text); err != nil {
				t.Fatal(err)
			}
			o := b.cycle(t, false)
			for name, pod := range b.stage.world.pods {
				if strings.HasPrefix(name, "low") && pod.Spec.NodeName == "" {
					t.Fatalf("%s fits, and waits:\n%s", name, o)
				}
			}
		}
	})
}
