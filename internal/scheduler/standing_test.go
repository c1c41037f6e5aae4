package scheduler

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/internal/cluster"
	"github.com/tutti-sched/tutti/internal/commit"
	"github.com/tutti-sched/tutti/internal/debugapi"
)

// inRacks gives the configuration blocks and racks, by the labels "block" and "rack".
func (w *world) inRacks() {
	profile := profileOf()
	profile.Topologies = []config.Topology{{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}}}
	w.reconfigure(profile)
}

// label gives a node the labels of a block and a rack; an empty one is none.
func (w *world) label(name, block, rack string) {
	node := w.nodes[name].DeepCopy()
	node.Labels = map[string]string{"block": block, "rack": rack}
	w.meta(node)
	w.nodes[name] = node
	w.mailbox.Event(&cluster.NodeSeen{Node: node})
}

// shares makes the members of a group share domains.
func (w *world) shares(group string, entries ...v1alpha1.TopologyConstraint) {
	w.alter(group, func(g *v1alpha1.PodGroup) { g.Spec.Topology = entries })
}

// places is the status.topology of a group.
func (w *world) places(group string) string {
	text := ""
	for _, entry := range w.groups[group].Status.Topology {
		text += fmt.Sprintf("%s%v %d/%d %v;", entry.Level, entry.Roles, entry.Domains, entry.Least, entry.Names)
	}
	return text
}

// TestAGroupShowsWhereItsMembersAre: the domains, and how many would do by what nodes offer. The status is not written again
// while the members stay, although the cluster grows; a label that changes, and members that end, are shown.
func TestAGroupShowsWhereItsMembersAre(t *testing.T) {
	w := newWorld(t)
	w.inRacks()
	for i, at := range []struct{ rack, cpu string }{{"r1", "2"}, {"r2", "1"}, {"r10", "1"}} {
		name := fmt.Sprint("n", i)
		w.node(name, at.cpu)
		w.label(name, "b1", at.rack)
	}
	w.gang("train", 4, 4)
	w.shares("train", v1alpha1.TopologyConstraint{Level: "rack", Mode: v1alpha1.TopologyPreferred}, v1alpha1.TopologyConstraint{Level: "block"})
	w.play(t.Context(), time.Second)
	if got, want := w.places("train"), "rack[] 3/3 [b1/r1 b1/r2 b1/r10];block[] 1/1 [b1];"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	w.runAll()
	w.play(t.Context(), time.Minute)
	w.node("large", "64")
	w.label("large", "b1", "r3")
	if calls := sent(w.play(t.Context(), time.Minute), commit.CallGroupStatus); len(calls) != 0 {
		t.Errorf("the cluster grows, and %d statuses are written", len(calls))
	}
	w.label("n2", "b1", "r2")
	w.play(t.Context(), time.Minute)
	if got, want := w.places("train"), "rack[] 2/1 [b1/r1 b1/r2];block[] 1/1 [b1];"; got != want {
		t.Errorf("with another label %s, want %s", got, want)
	}
	w.label("n2", "b1", "")
	w.play(t.Context(), time.Minute)
	if got, want := w.places("train"), "rack[] 2/1 [b1/r1 b1/r2];block[] 1/1 [b1];"; got != want {
		t.Errorf("without a label %s, want %s", got, want)
	}
	for i := range 4 {
		w.inPhase(fmt.Sprint("train-", i), "Succeeded")
	}
	w.play(t.Context(), time.Minute)
	if got, want := w.places("train"), "rack[] 2/1 [b1/r1 b1/r2];block[] 1/1 [b1];"; got != want {
		t.Errorf("when it has ended %s, want %s", got, want)
	}
}

// TestALabelThatIsGoneForSomeSecondsWritesNoStatus: the member stays in the domain for which it was bound, as filters see it.
func TestALabelThatIsGoneForSomeSecondsWritesNoStatus(t *testing.T) {
	w := newWorld(t)
	w.inRacks()
	for i, rack := range []string{"r1", "r2", "r2"} {
		name := fmt.Sprint("n", i)
		w.node(name, []string{"1", "1", "100m"}[i])
		w.label(name, "b1", rack)
	}
	w.gang("train", 2, 2)
	w.shares("train", v1alpha1.TopologyConstraint{Level: "rack", Mode: v1alpha1.TopologyPreferred})
	w.play(t.Context(), time.Second)
	w.runAll()
	w.play(t.Context(), time.Minute)
	const want = "rack[] 2/2 [b1/r1 b1/r2];"
	if got := w.places("train"); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	w.label("n1", "b1", "")
	if calls := sent(w.play(t.Context(), time.Minute), commit.CallGroupStatus); len(calls) != 0 || w.places("train") != want {
		t.Errorf("a label is gone, %d statuses are written: %s, want %s", len(calls), w.places("train"), want)
	}
}

// TestAGroupThatWaitsShowsNoPlaces, nor does one without topology; a level that the configuration has lost says no domain.
func TestAGroupThatWaitsShowsNoPlaces(t *testing.T) {
	w := newWorld(t)
	w.inRacks()
	w.node("n1", "4")
	w.label("n1", "b1", "r1")
	for _, name := range []string{"plain", "near"} {
		w.gang(name, 2, 2)
	}
	w.gang("big", 9, 9)
	w.shares("near", v1alpha1.TopologyConstraint{Level: "rack"})
	w.shares("big", v1alpha1.TopologyConstraint{Level: "rack"})
	w.play(t.Context(), time.Second)
	if got := w.places("plain") + w.places("big"); got != "" {
		t.Errorf("they show %s", got)
	}
	if got, want := w.places("near"), "rack[] 1/1 [b1/r1];"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	w.reconfigure(profileOf())
	w.node("n2", "1")
	w.play(t.Context(), time.Minute)
	if got, want := w.places("near"), "rack[] 0/0 [];"; got != want {
		t.Errorf("without the level %s, want %s", got, want)
	}
}

// TestDomainsAreShown: which are whole, what is idle in them, and how many nodes are in none.
func TestDomainsAreShown(t *testing.T) {
	w := newWorld(t)
	w.inRacks()
	for name, at := range map[string][2]string{"n1": {"b1", "r1"}, "n2": {"b1", "r2"}, "n3": {"b1", "r2"}, "n4": {"", "r9"}, "n5": {"b2", ""}} {
		w.node(name, "4")
		w.label(name, at[0], at[1])
	}
	cordoned := w.nodes["n3"].DeepCopy()
	cordoned.Spec.Unschedulable = true
	w.meta(cordoned)
	w.mailbox.Event(&cluster.NodeSeen{Node: cordoned})
	w.gang("train", 2, 2)
	for i := range 2 {
		w.change(fmt.Sprint("train-", i), func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "n2", corev1.PodRunning })
	}
	w.play(t.Context(), time.Second)
	source := debugapi.NewSource(w.loop.Inspect, w.clock)
	shown := inspect(w, func() (*debugapi.DomainList, error) { return source.Domains(t.Context()) })
	text := ""
	for _, level := range shown.Levels {
		text += fmt.Sprintf("%s %s without %d\n", level.Topology, level.Name, level.Unlabelled)
	}
	for _, domain := range shown.Items {
		text += fmt.Sprintf("%s %s nodes=%d used=%d cpu=%s/%s\n", domain.Level, domain.Name, domain.Nodes, domain.Used, domain.Idle.Cpu(), domain.Allocatable.Cpu())
	}
	want := `fabric block without 1
fabric rack without 1
rack /r9 nodes=1 used=0 cpu=4/4
block b1 nodes=3 used=1 cpu=6/12
rack b1/r1 nodes=1 used=0 cpu=4/4
rack b1/r2 nodes=2 used=1 cpu=2/8
block b2 nodes=1 used=0 cpu=4/4
`
	if text != want || !shown.Leading {
		t.Errorf("shown, leading: %v\n%s\nwant\n%s", shown.Leading, text, want)
	}
}

// TestDomainsAndPreferencesAreMeasured: how many domains are whole, and whether gangs that start are in one domain that they
// prefer.
func TestDomainsAndPreferencesAreMeasured(t *testing.T) {
	w, sum := newMeasuredWorld(t)
	if n := sum("tutti_domains"); n != 0 {
		t.Errorf("%v domains of no topology", n)
	}
	w.inRacks()
	for i, rack := range []string{"r1", "r1", "r2", "r3"} {
		name := fmt.Sprint("n", i)
		w.node(name, "2")
		w.label(name, "b1", rack)
	}
	w.node("lone", "1")
	prefers := func(levels ...string) (entries []v1alpha1.TopologyConstraint) {
		for _, level := range levels {
			entries = append(entries, v1alpha1.TopologyConstraint{Level: level, Mode: v1alpha1.TopologyPreferred})
		}
		return entries
	}
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_domains level=rack state=whole": 3, "tutti_domains level=rack state=broken": 0, "tutti_domains level=block state=whole": 1,
	})
	w.gang("near", 4, 4)
	w.shares("near", append(prefers("rack"), v1alpha1.TopologyConstraint{Level: "block"})...)
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_domains level=rack state=whole": 2, "tutti_domains level=rack state=broken": 1,
		"tutti_domains level=block state=whole": 0, "tutti_domains level=block state=broken": 1,
		"tutti_preferred_starts_total level=rack result=met": 1, "tutti_preferred_starts_total": 1,
	})
	w.gang("far", 4, 4)
	w.shares("far", prefers("block", "rack", "host")...)
	w.play(t.Context(), time.Second)
	w.gang("row", 1, 1)
	w.shares("row", prefers("rack", "example.com/row", "label:row")...)
	w.play(t.Context(), time.Second)
	expectMetrics(t, sum, map[string]float64{
		"tutti_domains level=rack state=whole": 0, "tutti_domains level=rack state=broken": 3,
		"tutti_preferred_starts_total level=block result=met": 1, "tutti_preferred_starts_total level=block result=unmet": 0,
		"tutti_preferred_starts_total level=rack result=met": 1, "tutti_preferred_starts_total level=rack result=unmet": 2,
		"tutti_preferred_starts_total level=host result=unmet": 1, "tutti_preferred_starts_total level=label result=unmet": 2,
		"tutti_preferred_starts_total": 7, "tutti_started_gangs_total": 3,
	})
}
