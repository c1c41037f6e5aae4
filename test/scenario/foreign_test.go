package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tutti-sched/tutti/internal/sources"
)

// dialects are the ways in which a gang may say how many of it start together.
var dialects = []string{"annotations", "coscheduling", "volcano", "kubernetes", "kueue", "leaderworkerset"}

// inDialect writes a gang in one of them: by what stands on its pods, or by an object of another project. label is that of which
// the nodes of all members have one value, empty when there is none.
func inDialect(dialect, name string, members []string, minimum, age int, label string) string {
	var lines []string
	shares, ofObject := "", ""
	if label != "" {
		switch shares = " topology=label:" + label; dialect {
		case "kubernetes":
			shares, ofObject = "", " topology="+label
		case "kueue":
			shares = " annotations=" + sources.KueueRequired + "=" + label
		case "coscheduling":
			shares = " annotations=" + sources.KAIRequired + "=label:" + label
		}
	}
	mark := func(int) string { return fmt.Sprintf("%s=%s", dialect, name) }
	switch dialect {
	case "annotations":
		mark = func(int) string { return fmt.Sprintf("group=%s min=%d owner=Job/default/%s", name, minimum, name) }
	case "kueue":
		mark = func(int) string { return fmt.Sprintf("kueue=%s total=%d", name, minimum) }
	case "leaderworkerset":
		mark = func(i int) string {
			return fmt.Sprintf("%s=%s/0 size=%d revision=r", []string{"leader", "worker"}[min(i, 1)], name, minimum)
		}
	default:
		lines = append(lines, fmt.Sprintf("%s %s min=%d age=%ds%s", dialect, name, minimum, age, ofObject))
	}
	for i, member := range members {
		lines = append(lines, member+" "+mark(i)+shares)
	}
	return strings.Join(lines, "\n")
}

// TestDialectsGiveTheSameDecisions: one history of gangs and single pods has, in each dialect, the same pods on the same nodes
// after each cycle, also when members end, fail or leave in between. The workers of a LeaderWorkerSet are a part of its group
// that is made later: where all of them are lost they start together again, as in the story "all workers are lost", while the
// members of a gang without parts come back one by one. From then on the histories are not compared.
func TestDialectsGiveTheSameDecisions(t *testing.T) {
	newStage := openLister(t)
	rapid.Check(t, func(t *rapid.T) {
		d := &random{t: t}
		type gang struct {
			name    string
			members []string
			workers []string // the names of the members but the first
			minimum int
			label   string
		}
		var (
			gangs []gang
			lines = []string{"read coscheduling yes", "read volcano yes", "read kubernetes yes", "class low value=-5", "class high value=5"}
			steps [][]string
		)
		for i := range d.n(1, 4) {
			lines = append(lines, d.node(i))
		}
		for i := range d.n(1, 4) {
			g := gang{name: fmt.Sprintf("g%d", i), minimum: d.n(1, 4), label: d.one("", "", "rack")}
			for m := range d.n(1, 5) {
				if m > 0 {
					g.workers = append(g.workers, fmt.Sprintf("%s-%d", g.name, m))
				}
				g.members = append(g.members, fmt.Sprintf("pod %s-%d age=%ds cpu=%d priority=%d", g.name, m, 100*(9-i)-m, d.n(0, 2), d.n(0, 1)))
			}
			gangs = append(gangs, g)
		}
		for i := range d.n(0, 2) {
			lines = append(lines, fmt.Sprintf("pod single-%d cpu=%d age=%ds", i, d.n(0, 2), 150*i+50))
		}
		for range d.n(1, 5) {
			steps = append(steps, []string{d.one("run", "finish", "fail", "leave", "node", "later"), fmt.Sprint(d.n(0, 9))})
		}
		var first string
		for _, dialect := range dialects {
			s := newStage()
			s.configuration = plainConfiguration()
			all := slices.Clone(lines)
			for i, g := range gangs {
				all = append(all, inDialect(dialect, g.name, g.members, g.minimum, 100*(9-i), g.label))
			}
			if err := s.world.apply(strings.Join(all, "\n")); err != nil {
				t.Fatal(err)
			}
			text, begun := "", map[string]bool{}
			onNode := func(name string) bool { return s.world.pods[name] != nil && s.world.pods[name].Spec.NodeName != "" }
			lostPart := func(name string, workers []string) bool {
				has := slices.ContainsFunc(workers, onNode)
				begun[name] = begun[name] || has
				return dialect == "leaderworkerset" && begun[name] && !has
			}
			for _, step := range steps {
				if slices.ContainsFunc(gangs, func(g gang) bool { return lostPart(g.name, g.workers) }) {
					break
				}
				if _, err := s.cycle(); err != nil {
					t.Fatal(err)
				}
				if err := s.confirm(); err != nil {
					t.Fatal(err)
				}
				for _, name := range slices.Sorted(maps.Keys(s.world.pods)) {
					text += name + "=" + s.world.pods[name].Spec.NodeName + " "
				}
				text += "\n"
				for _, g := range gangs {
					lostPart(g.name, g.workers)
				}
				if err := happens(s, step[0], step[1]); err != nil {
					t.Fatal(err)
				}
			}
			if first == "" {
				first = text
			} else if !strings.HasPrefix(first, text) || dialect != "leaderworkerset" && text != first {
				t.Fatalf("%s:\n%s\ninstead of\n%s\nof %v %v", dialect, text, first, lines, gangs)
			}
		}
	})
}

// plainConfiguration is one without what needs a PodGroup of ours.
func plainConfiguration() []byte {
	return []byte("actions: \"allocate, preempt\"\ntiers:\n- plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: nodeorder}]\n")
}

// happens does something to a pod that has a node, or to the cluster.
func happens(s *environment, what, which string) error {
	bound := []string{}
	for _, name := range slices.Sorted(maps.Keys(s.world.pods)) {
		if pod := s.world.pods[name]; pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			bound = append(bound, name)
		}
	}
	switch {
	case what == "node":
		return s.world.apply("node more" + which + " cpu=2")
	case what == "later":
		s.world.now = s.world.now.Add(15 * time.Second)
		return nil
	case len(bound) == 0:
		return nil
	}
	at := bound[int(which[0]-'0')%len(bound)]
	if what == "leave" {
		return s.world.remove("pod", []string{at})
	}
	return s.applyEvents(what, []string{at}, nil)
}
