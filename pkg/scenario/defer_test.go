package scenario

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/pkg/model"
)

// burst plays cycles and keeps the rules for jobs that come together with jobs of higher priority.
type burst struct {
	*fight
	// deferred are the jobs that waited in the last cycle for eviction to be planned, bound the pods that it bound without their having
	// waited, refused the jobs that it refused, none of them for lack of a turn.
	deferred, refused map[model.JobKey]bool
	bound             map[string]bool
}

// cycle plays one; still says that nothing has happened since the last one.
func (b *burst) cycle(t rapid.TB, still bool) *outcome {
	begun := map[model.JobKey]bool{} // such jobs come before all others
	for _, pod := range b.stage.world.pods {
		if pod.Spec.NodeName != "" {
			begun[b.stage.jobOf(pod)] = true
		}
	}
	o := b.stage.goOn(t)
	deferred, refused, bound := map[model.JobKey]bool{}, map[model.JobKey]bool{}, map[string]bool{}
	for job, refusal := range o.refusals {
		refused[job] = refusal.Evictable
		if strings.HasPrefix(refusal.Detail, "waits for one cycle") {
			if deferred[job] = true; b.deferred[job] {
				t.Fatalf("%s is deferred in two cycles in a row:\n%s", job, o)
			}
		}
	}
	highest := int32(-1) // of those for whom pods are evicted
	for _, d := range o.decisions {
		if len(d.Evictions) > 0 {
			highest = max(highest, b.stage.priorityOfJob(d.Job))
		}
		for _, e := range d.Evictions {
			if name := key(e.Pod.Namespace, e.Pod.Name); still && b.bound[name] && b.refused[d.Job] {
				t.Fatalf("%s is evicted for %s, which waited already when it was bound:\n%s", name, d.Job, o)
			}
		}
	}
	for _, d := range o.decisions {
		if len(d.Binds) == 0 || b.deferred[d.Job] || begun[d.Job] {
			continue
		}
		if b.stage.priorityOfJob(d.Job) < highest {
			t.Fatalf("%s starts in the cycle in which pods are evicted for a job above it:\n%s", d.Job, o)
		}
		for _, bind := range d.Binds {
			bound[key(bind.Pod.Namespace, bind.Pod.Name)] = true
		}
	}
	b.deferred, b.refused, b.bound = deferred, refused, bound
	if err := b.stage.confirm(); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestLowerJobsStartAfterHigherOnesArePlannedFor on random clusters where jobs of several priorities come in bursts.
func TestLowerJobsStartAfterHigherOnesArePlannedFor(t *testing.T) {
	newStage := openLens(t)
	deferred := 0
	rapid.Check(t, func(t *rapid.T) {
		b := &burst{fight: &fight{dice: &dice{t: t}, stage: newStage()}}
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
			deferred += len(b.deferred)
			still = true
			if b.n(0, 2) == 0 {
				if err := b.happen(); err != nil {
					t.Fatal(err)
				}
				still = false
			}
		}
	})
	t.Logf("%d times a job was deferred", deferred)
	if deferred == 0 {
		t.Error("no job was deferred: this tests nothing")
	}
}

// TestConstantChangeDefersNoLongerThanOneCycle: in each cycle there are new jobs of higher priority that eviction might help for all
// that is known, and the cluster changes.
func TestConstantChangeDefersNoLongerThanOneCycle(t *testing.T) {
	newStage := openLens(t)
	deferred := 0
	rapid.Check(t, func(t *rapid.T) {
		b := &burst{fight: &fight{dice: &dice{t: t}, stage: newStage()}}
		if err := b.stage.world.apply("node n0 cpu=40\nnode n1 cpu=40\npod run cpu=1 node=n0 phase=Running priority=0"); err != nil {
			t.Fatal(err)
		}
		came := map[string]int{}
		for cycle := range b.n(2, 8) {
			b.names++
			text := fmt.Sprintf("pod run%d cpu=100m node=n%d phase=Running priority=%d", b.names, b.n(0, 1), b.n(0, 1))
			for i := range b.n(0, 3) {
				text += fmt.Sprintf("\npod high%d-%d cpu=%d priority=%d", b.names, i, b.n(41, 43), b.n(10, 12))
			}
			for i := range b.n(0, 2) {
				name := fmt.Sprintf("low%d-%d", b.names, i)
				text += fmt.Sprintf("\npod %s cpu=1 priority=%d", name, b.n(1, 9))
				came[name] = cycle
			}
			if err := b.stage.world.apply(text); err != nil {
				t.Fatal(err)
			}
			o := b.cycle(t, false)
			deferred += len(b.deferred)
			maps.DeleteFunc(came, func(name string, _ int) bool { return b.stage.world.pods[key("default", name)].Spec.NodeName != "" })
			for name, since := range came {
				if cycle > since {
					t.Fatalf("%s fits, and waits for more than one cycle:\n%s", name, o)
				}
			}
		}
	})
	if deferred == 0 {
		t.Error("no job was deferred: this tests nothing")
	}
}

// TestWhereNoPlanExistsNobodyIsDeferred: once that is known, lower jobs that come start in the same cycle.
func TestWhereNoPlanExistsNobodyIsDeferred(t *testing.T) {
	s := openLens(t)()
	if err := s.world.apply("node n0 cpu=4\npod run cpu=1 node=n0 phase=Running\npod high cpu=5 priority=10"); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"", "first", "second"} {
		if pod != "" {
			if err := s.world.apply(fmt.Sprintf("pod %s cpu=1 priority=1", pod)); err != nil {
				t.Fatal(err)
			}
		}
		o := s.goOn(t)
		if err := s.confirm(); err != nil {
			t.Fatal(err)
		}
		waiting := s.world.podNames(func(p *corev1.Pod) bool { return p.Spec.NodeName == "" })
		if pod == "first" && len(waiting) != 1 {
			t.Errorf("%v wait:\n%s", waiting, o)
		}
	}
}
