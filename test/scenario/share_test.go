package scenario

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// gangInADomain draws a gang whose members share a domain, of some priority.
func (f *fight) gangInADomain() string {
	f.names++
	name, members, priority := fmt.Sprintf("t%03d", f.names), f.n(2, 4), f.n(1, 3)
	lines := []string{fmt.Sprintf("group %s min=%d topology=%s", name, f.n(1, members), f.one("rack", "rack", "block", "host", "block,rack", "rack,clique"))}
	alike := fmt.Sprintf("cpu=%d memory=%dGi", f.n(0, 3), f.n(0, 2))
	for i := range members {
		if f.n(0, 5) == 0 {
			alike = fmt.Sprintf("cpu=%d memory=%dGi", f.n(0, 3), f.n(0, 2))
		}
		lines = append(lines, fmt.Sprintf("pod %s-%d group=%s priority=%d %s labels=app=%s", name, i, name, priority, alike, f.one("x", "y")))
	}
	return strings.Join(lines, "\n")
}

// inQueues lets the groups and the other pods be in queues that may take from each other.
func (f *fight) inQueues(lines string) string {
	all := []string{"queue q0 selector=* guarantee=cpu:3", "queue q1 selector=* guarantee=cpu:2", "queue q2 selector=* weight=3"}
	for one := range strings.SplitSeq(lines, "\n") {
		switch {
		case strings.HasPrefix(one, "group "):
			one += " queue=" + f.one("q0", "q1", "q2")
		case strings.HasPrefix(one, "pod ") && !strings.Contains(one, " group="):
			one = strings.Replace(one, " labels=", " labels=scheduling.tutti.dev/queue="+f.one("q0", "q1", "q2")+",", 1)
		}
		all = append(all, one)
	}
	return strings.Join(all, "\n")
}

// TestVictimsAreInTheDomainOfTheStart keeps invariants T1 and T2, which the player checks after each cycle, on random clusters
// in which gangs that share a domain come while others run, wait for their victims, and lose members.
func TestVictimsAreInTheDomainOfTheStart(t *testing.T) {
	newStage, evicted := openLister(t), 0
	rapid.Check(t, func(t *rapid.T) {
		f := &fight{random: &random{t: t}, stage: newStage(), budgets: rapid.Bool().Draw(t, "budgets")}
		queues, lines := rapid.Bool().Draw(t, "queues"), f.cluster()
		for i := range f.n(3, 8) {
			lines += fmt.Sprintf("\nnode n%d cpu=%d memory=%dGi labels=block=%s,rack=%s,clique=%s",
				i, f.n(1, 5), f.n(1, 5), f.one("x", "x", "y"), f.one("a", "b", "c"), f.one("c", "d"))
		}
		for range f.n(2, 5) {
			lines += "\n" + f.gang(0)
		}
		for range f.n(2, 5) {
			if queues {
				lines = f.inQueues(lines)
			}
			if err := f.stage.world.apply(lines); err != nil {
				t.Fatal(err)
			}
			o, err := f.stage.cycle()
			if err != nil {
				t.Fatal(err)
			}
			for _, decision := range o.decisions {
				if group := f.stage.groupOfJob(decision.Job); group != nil && group.Spec.Topology != nil {
					evicted += len(decision.Evictions)
				}
			}
			if err := f.stage.confirm(); err != nil {
				t.Fatal(err)
			}
			if err := f.happen(); err != nil {
				t.Fatal(err)
			}
			lines = f.gangInADomain()
		}
		f.end(t)
	})
	t.Logf("%d pods were evicted for such gangs", evicted)
	if evicted == 0 {
		t.Error("no pod was evicted for such a gang")
	}
}
