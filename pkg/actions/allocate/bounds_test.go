package allocate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/place"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
	"github.com/tutti-sched/tutti/pkg/topology"
)

// gathering is a gang on empty nodes of so much CPU each, so many to a rack.
func gathering(nodes, perRack int, cpu int64, members ...template) *siblings {
	p := &siblings{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}
	for i := range nodes {
		name, room := fmt.Sprintf("n%05d", i), model.Resources{cpu, 0, 0, 0}
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"host": name, "rack": fmt.Sprint("r", i/perRack)},
		}}
		p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(name, object, room))
	}
	p.snapshot.AssignIndexes()
	p.job = &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", Need: model.Need{MinMember: int32(len(members))}}
	for i, member := range members {
		p.job.Tasks = append(p.job.Tasks, member.task(i))
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

// start returns how many members a cycle binds.
func (p *siblings) start() (bound int) {
	filter := neighbours{index: topology.New(neighbours{})}
	profile := &engine.Profile{Actions: []engine.Action{allocate.New()}, Tiers: []engine.Tier{{
		{Factory: gang.New}, {Factory: func() framework.Plugin { return filter }},
	}}}
	engine.Run(p.snapshot, profile, engine.Options{Decide: func(d model.Decision) { bound += len(d.Binds) }})
	return bound
}

// TestSeveralTiesAreBounded: of several ties there are more choices than can be tried, also where few nodes make each
// cheap, or where none is left for the last tie. Without a bound this does not end.
func TestSeveralTiesAreBounded(t *testing.T) {
	var pairs, racks []template
	for i := range 11 { // on ten nodes with capacity for one pair each
		app := fmt.Sprint("app", i)
		one := template{app: app, cpu: 1, says: []says{{"near", app, "host"}}}
		pairs = append(pairs, one, one)
	}
	for i, count := range []int{2, 2, 2, 41} { // in racks with capacity for forty
		for range count {
			app := fmt.Sprint("app", i)
			racks = append(racks, template{app: app, cpu: 1, says: []says{{"near", app, "rack"}}})
		}
	}
	for name, p := range map[string]*siblings{
		"pairs": gathering(10, 1, 2, pairs...), "racks": gathering(2000, 10, 4, racks...),
	} {
		if bound := p.start(); bound != 0 {
			t.Errorf("%s: %d are bound", name, bound)
		}
	}
}

// TestPartners: every worker must be near a server of its own. However many they are, servers come before workers.
func TestPartners(t *testing.T) {
	for _, count := range []int{2, 8, 15, 16, 40} {
		var members []template
		for i := range count {
			members = append(members, template{app: fmt.Sprint("s", i), cpu: 1})
		}
		for i := range count {
			members = append(members, template{app: fmt.Sprint("w", i), cpu: 2, says: []says{{"near", fmt.Sprint("s", i), "rack"}}})
		}
		p := gathering(3, 3, 1000, members...)
		for i, task := range p.job.Tasks {
			if task.Role = "server"; i >= count {
				task.Role = "worker"
			}
		}
		if bound := p.start(); bound != 2*count {
			t.Errorf("%d partners: %d of %d are bound", count, bound, 2*count)
		}
	}
}

// TestASearchCutShortGoesOn: behind gangs that cannot start, and are searched in vain, one that only a search finds capacity for
// has its turn in one of the next cycles, whether or not anything happens.
func TestASearchCutShortGoesOn(t *testing.T) {
	for _, moves := range []bool{false, true} {
		snapshot := &model.Snapshot{Dimensions: model.NewDimensions(), Version: 1, Now: time.Unix(1000, 0)}
		for i, cpu := range []int64{4, 3} {
			room := model.Resources{cpu, 9, 0, 0}
			snapshot.Nodes = append(snapshot.Nodes, model.NewNode(fmt.Sprint("n", i), nil, room))
		}
		snapshot.AssignIndexes()
		for i, name := range []string{"a", "b", "c"} { // two of three CPUs each, and one of two: of the nodes only one takes any
			snapshot.Jobs = append(snapshot.Jobs,
				gangOf(name, model.Resources{3, int64(i + 1)}, model.Resources{2, 1}, model.Resources{3, int64(i + 1)}))
		}
		// Two of two CPUs on the larger node, and one of three on the other; the largest would take the larger.
		snapshot.Jobs = append(snapshot.Jobs, gangOf("z", model.Resources{3, 1}, model.Resources{2, 1}, model.Resources{2, 1}))
		profile := &engine.Profile{
			Actions: []engine.Action{allocate.NewWithin(16)}, Tiers: []engine.Tier{{{Factory: gang.New}}},
		}
		cache, bound := &engine.Cache{}, 0
		for range 8 {
			engine.Run(snapshot, profile, engine.Options{Cache: cache, Decide: func(d model.Decision) { bound += len(d.Binds) }})
			if moves {
				snapshot.Version++
			}
		}
		if bound != 3 {
			t.Errorf("something happens: %t: %d are bound", moves, bound)
		}
	}
}

// place places the gang within a budget, and returns how much of that is used.
func (p *places) place(t *testing.T, budget int) (used int, refusal *model.Refusal) {
	t.Helper()
	profile := &engine.Profile{Topologies: trees(), Tiers: []engine.Tier{{{Factory: gang.New}}}}
	p.snapshot.Jobs = []*model.Job{p.job}
	session := engine.Open(p.snapshot, profile, engine.Options{})
	defer session.Close()
	left := budget
	refusal = place.New(session.Ask(p.job, model.Idle), place.Largest(p.snapshot), &left).Place()
	return budget - left, refusal
}

// TestAPartWithoutADomainEndsTheSearch: where no rack has capacity for one role, no choice of domains for the others is tried, so
// that gangs that cannot start leave the budget to those behind them.
func TestAPartWithoutADomainEndsTheSearch(t *testing.T) {
	p := newPlaces()
	for i := range 100 {
		labels := map[string]string{"block": "b", "rack": fmt.Sprint("r", i/2), "clique": fmt.Sprint("c", i/4)}
		p.addNode(3, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
	}
	for role, entry := range []model.TopologyConstraint{{Level: "clique"}, {Level: "rack"}} {
		entry.Roles = []string{fmt.Sprint("r", role)}
		p.addPart(entry, 8-role, nil)
	}
	if used, refusal := p.place(t, place.Budget); refusal == nil || used > 100 {
		t.Errorf("%d of the budget are used: %v", used, refusal)
	}
}

// TestPackingEndsWithTheBudget: to find out that many roles with a rack each have no place may cost more than there is.
func TestPackingEndsWithTheBudget(t *testing.T) {
	p := newPlaces()
	for rack, cpu := range []int64{13, 15, 17, 15} { // two members of each role go together, and one place in each rack is left over
		p.addNode(cpu, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": fmt.Sprint(rack)}}})
	}
	for i, members := range []int{8, 8, 6, 6, 6, 6, 4, 4, 4, 4, 2} {
		p.addPart(model.TopologyConstraint{Level: "rack", Roles: []string{fmt.Sprint("r", i)}}, members, nil)
	}
	for budget, exact := range map[int]bool{place.Budget: true, 100: false} {
		if used, refusal := p.place(t, budget); refusal == nil || strings.Contains(refusal.String(), notAll) == exact {
			t.Errorf("%d of %d are used: %v", used, budget, refusal)
		}
	}
}

// TestASliceWhoseSearchIsCutShortIsLookedAtAgain: members beyond the minimum, too, wait for the next cycle alone where others
// have used up the budget.
func TestASliceWhoseSearchIsCutShortIsLookedAtAgain(t *testing.T) {
	for budget, bound := range map[int]int{0: 2, place.Budget: 4} {
		p, binds := newPlaces(), 0
		for rack := range 41 { // the last has capacity for both slices, each of the others for any one member
			p.addNode(1+int64(rack/40)*3, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": fmt.Sprint(rack)}}})
		}
		p.addMembers("", 3, 1, nil)
		p.addMembers("", 1, 1, map[string]string{"none": ""})
		p.job.MinMember, p.job.Topology = 2, []model.TopologyConstraint{{Level: "rack", SliceSize: 2}}
		p.snapshot.Jobs, p.snapshot.Now = []*model.Job{p.job}, time.Unix(1000, 0)
		profile := &engine.Profile{
			Actions: []engine.Action{allocate.NewWithin(budget)}, Topologies: trees(), Tiers: []engine.Tier{{{Factory: gang.New}}},
		}
		refusal := engine.Run(p.snapshot, profile, engine.Options{Decide: func(d model.Decision) { binds += len(d.Binds) }}).Refusals[p.job.Key]
		if binds != bound || bound == 2 && (!refusal.Until.Equal(p.snapshot.Now) || !strings.Contains(refusal.String(), notAll)) {
			t.Errorf("%d bound within %d: %+v", binds, budget, refusal)
		}
	}
}
