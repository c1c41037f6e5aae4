package scenario

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/cluster"
)

// written is everything that a cycle decided, byte for byte.
func (o *outcome) written() string {
	text := o.String()
	for _, decision := range o.decisions {
		if decision.Reservation != nil {
			for _, room := range decision.Reservation.Nodes {
				for _, i := range byName(o.snapshot.Dimensions) { // their positions depend on the order of events
					if amount := room.Request.At(i); amount != 0 { // who has a past knows more resources by name
						text += fmt.Sprintln(room.Node, o.snapshot.Dimensions.Name(i), amount)
					}
				}
			}
			decision.Reservation = nil // else it is written as an address
		}
		text += fmt.Sprintf("%+v\n", decision)
	}
	for _, job := range o.snapshot.Jobs {
		if refusal := o.refusals[job.Key]; refusal != nil {
			text += fmt.Sprintf("%s %+v\n", job.Key, *refusal)
		}
	}
	return text
}

// replay gives the events to a new scheduler, on so many processors, and returns what its first two cycles decide.
func replay(t *rapid.T, s *environment, present *world, events []cluster.Event, processors int) string {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	s.world = present
	for _, event := range events {
		s.state.Apply(event)
	}
	text := ""
	for range 2 {
		o, err := s.cycle()
		if err != nil {
			t.Fatal(err)
		}
		text += o.written()
	}
	return text
}

// TestSameInputSameDecision is invariants I21 and I22: the same objects give the same decisions and the same refusals, in
// whatever order and however often the watches delivered them, on however many processors.
func TestSameInputSameDecision(t *testing.T) { checkSameDecision(t, (*random).cluster) }

// TestSameInputSameDecisionInDomains is the same of gangs that share domains, where several choices are equally good: T3.
func TestSameInputSameDecisionInDomains(t *testing.T) { checkSameDecision(t, (*random).alikeDomains) }

func checkSameDecision(t *testing.T, objects func(*random) string) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d, s := &random{t: t}, newStage()
		s.configuration = d.configuration()
		if err := s.world.apply(objects(d)); err != nil {
			t.Fatal(err)
		}
		for range d.n(0, 2) {
			if _, err := s.cycle(); err != nil {
				t.Fatal(err)
			}
			if err := s.confirm(); err != nil {
				t.Fatal(err)
			}
			for range d.n(0, 3) {
				if err := d.happen(s); err != nil {
					t.Fatal(err)
				}
			}
		}
		events := s.world.events
		want := replay(t, configured(newStage(), s), s.world, events, 1)
		for processors := 1; processors <= 4; processors++ {
			shuffled := rapid.Permutation(events).Draw(t, "order")
			if len(events) > 0 {
				shuffled = append(shuffled, rapid.SampledFrom(events).Draw(t, "again"))
			}
			if got := replay(t, configured(newStage(), s), s.world, shuffled, processors); got != want {
				t.Fatalf("on %d processors, in another order:\n%s\ninstead of\n%s", processors, got, want)
			}
		}
	})
}

// dividedParts is a gang whose parts are tried in many racks: those of w and y may change places.
const dividedParts = `
	nodes a{0..3} cpu=1 labels=block=b1,rack=r1
	nodes b{0..4} cpu=1 labels=block=b1,rack=r2
	nodes c{0..1} cpu=1 labels=block=b1,rack=r3
	nodes d{0..2} cpu=1 labels=block=b1,rack=r4
	group train min=14 roles=w:4,x:2,y:4,z:4 topology=rack@w,rack@x,rack@y,rack@z:3
	pods w-{0..3} group=train role=w cpu=1
	pods x-{0..1} group=train role=x cpu=1
	pods y-{0..3} group=train role=y cpu=1
	pods z-{0..3} group=train role=z cpu=1`

// alikeDomains draws nodes of one size in domains that are mostly alike, too, and gangs that share them: several choices are
// equally good, so that a wrong order shows. The name of one domain is the beginning of another one.
func (d *random) alikeDomains() string {
	if d.n(1, 6) == 1 {
		return dividedParts
	}
	lines := []string{"class low value=-5", "class high value=5"}
	cpu, nodes, names := d.n(1, 3), d.n(4, 10), []string{"10", "1", "2", "3"}
	blocks, racks, cliques := d.n(1, 3), d.n(1, 4), d.n(1, 4)
	for i := range nodes {
		at := i
		if d.n(1, 10) == 1 {
			at = d.n(0, nodes)
		}
		line := fmt.Sprintf("node n%d cpu=%d labels=block=b%s,rack=r%s", i, cpu, names[at%blocks], names[at/blocks%racks])
		if d.n(0, 6) > 0 {
			line += ",clique=c" + names[at%cliques]
		}
		lines = append(lines, line)
	}
	for range d.n(0, 3) { // they are in the way, or are evicted
		lines = append(lines, d.pod("", fmt.Sprintf("class=low cpu=1 phase=Running node=n%d", d.n(0, nodes-1))))
	}
	for range d.n(1, 4) {
		lines = append(lines, d.alikeGang())
	}
	return strings.Join(lines, "\n")
}

// alikeGang draws a gang whose members are alike, or of two shapes, in one role or two.
func (d *random) alikeGang() string {
	d.names++
	name, members, levels := fmt.Sprintf("a%03d", d.names), d.n(2, 8), d.sharedLevels()
	roles, big := d.n(0, 2) == 0 || strings.Contains(levels, "@"), d.n(0, 3) == 0
	line := fmt.Sprintf("group %s min=%d topology=%s", name, d.n(max(2, members-2), members), levels)
	if roles {
		line += fmt.Sprintf(" roles=r:%d,worker:%d", d.n(1, (members+1)/2), d.n(1, members/2))
	}
	lines := []string{line + d.seldom(3, "class=high")}
	for i := range members {
		cpu := 1
		if big && i%3 == 0 {
			cpu = 2
		}
		pod := fmt.Sprintf("pod %s-%d group=%s cpu=%d", name, i, name, cpu)
		if roles {
			pod += " role=" + []string{"r", "worker"}[i%2]
		}
		lines = append(lines, pod)
	}
	return strings.Join(lines, "\n")
}

// sharedLevels are levels that members share, some of them or slices of them.
func (d *random) sharedLevels() string {
	level := func() string { return d.one("block", "rack", "rack", "clique", "host", "label:rack") }
	switch d.n(0, 5) {
	case 0: // roles that are counted together
		one := level()
		return one + "@r," + one + "@worker"
	case 1: // parts that cross each other
		return level() + "@r" + d.one("", ":2") + "," + level() + "@worker" + d.one("", ":2")
	case 2:
		return level() + "~," + level() + d.one("", "@r", ":2", ":3")
	}
	return level() + d.one("", "", "~", "@r", ":2", ":3", "@r:2")
}
