package allocate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/actions/allocate"
	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
	"github.com/tutti-sched/tutti/pkg/plugins/gang"
)

// places is a cluster of blocks with racks, and of cliques across them, in which a gang waits.
type places struct{ problem }

func (p *places) label(node *model.Node, level string) string {
	labels := node.Object.Labels
	switch {
	case level == config.LevelHost:
		return node.Name
	case level == "rack" && labels["rack"] != "":
		return labels["block"] + "/" + labels["rack"]
	}
	return labels[level]
}

// trees are the topologies of the tests.
func trees() []config.Topology {
	return []config.Topology{
		{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}},
		{Name: "nvlink", Levels: []config.Level{{Name: "clique", Label: "clique"}}},
	}
}

// drawPlaces draws a gang of one shape.
func drawPlaces(t *rapid.T) *places {
	p := &places{problem: problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}}
	for i := range rapid.IntRange(1, 20).Draw(t, "nodes") {
		room := model.Resources{rapid.Int64Range(0, 4).Draw(t, "cpu"), 0, 0, 0}
		p.snapshot.Nodes = append(p.snapshot.Nodes, &model.Node{
			Name: fmt.Sprintf("n%02d", i), Allocatable: room, Idle: room.Clone(),
			Releasing: make(model.Resources, 4), Pipelined: make(model.Resources, 4), Object: drawLabels(t),
		})
	}
	n := rapid.IntRange(1, 16).Draw(t, "members")
	p.job = &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang", MinMember: int32(n)}
	for i := range n {
		p.job.Tasks = append(p.job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(fmt.Sprintf("m%02d", i)), Name: fmt.Sprint("m", i)}, Job: p.job.Key, Pod: &corev1.Pod{},
			Request: model.Resources{1}, Shape: unique.Make("one"),
		})
	}
	p.drawLevels(t, nil)
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

func drawLabels(t *rapid.T) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, label := range []string{"block", "rack", "clique"} {
		if value := rapid.SampledFrom([]string{"1", "2", "3", "1", "2", ""}).Draw(t, label); value != "" {
			node.Labels[label] = value
		}
	}
	return node
}

// drawLevels draws which members share domains.
func (p *places) drawLevels(t *rapid.T, roles []string) {
	for range rapid.IntRange(1, 2).Draw(t, "entries") {
		shared := model.TopologyConstraint{Level: rapid.SampledFrom([]string{"block", "block", "rack", "rack", "clique", "host"}).Draw(t, "level")}
		if roles != nil && rapid.Bool().Draw(t, "of a role") {
			shared.Roles = []string{rapid.SampledFrom(roles).Draw(t, "role")}
		}
		p.job.Topology = append(p.job.Topology, shared)
	}
}

// cycle returns the nodes of the members that a cycle binds, and why the gang waits.
func (p *places) cycle() (at map[string]*model.Node, refusal *model.Refusal) {
	at = map[string]*model.Node{}
	profile := &framework.Profile{
		Actions: []framework.Action{allocate.New()}, Topologies: trees(),
		Tiers: []framework.Tier{{{Factory: gang.New}, {Factory: func() framework.Plugin { return barred{} }}}},
	}
	refusals := framework.Run(p.snapshot, profile, framework.Options{Verify: true, Decide: func(d model.Decision) {
		for _, bind := range d.Binds {
			at[bind.Pod.Name] = p.snapshot.Node(bind.Node)
		}
	}})
	return at, refusals[p.job.Key]
}

// notAll is what a reason says that is not exact.
const notAll = "not all possibilities were tried"

// combinations returns the sets of nodes that are in one domain of each of the levels.
func (p *places) combinations(levels []string) map[string][]*model.Node {
	sets := map[string][]*model.Node{}
	for _, node := range p.snapshot.Nodes {
		key := ""
		for _, level := range levels {
			value := p.label(node, level)
			if value == "" {
				key = ""
				break
			}
			key += level + "=" + value + " "
		}
		if key != "" {
			sets[key] = append(sets[key], node)
		}
	}
	return sets
}

func fits(nodes []*model.Node) (n int64) {
	for _, node := range nodes {
		n += node.Allocatable.At(model.CPU)
	}
	return n
}

// TestOneShapeStartsWhereADomainHasCapacity: a gang of one shape starts if and only if the nodes that are in one domain of each
// of its levels have capacity for all of it; then in one rack if one of these has, else in as few racks as any block needs.
func TestOneShapeStartsWhereADomainHasCapacity(t *testing.T) {
	started, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaces(t)
		var levels []string
		for _, shared := range p.job.Topology {
			levels = append(levels, shared.Level)
		}
		possible := false
		for _, nodes := range p.combinations(levels) {
			possible = possible || fits(nodes) >= int64(p.job.MinMember)
		}
		at, refusal := p.cycle()
		if !possible && strings.Contains(refusal.String(), notAll) {
			t.Fatalf("%v: %s", levels, refusal)
		}
		if got := len(at) == int(p.job.MinMember); got != possible || len(at) > 0 && !got {
			t.Fatalf("%v: %d of %d members are bound; a domain with capacity exists: %v", levels, len(at), p.job.MinMember, possible)
		}
		if !possible {
			waited++
			return
		}
		started++
		for _, level := range levels {
			if used := p.used(at, level); len(used) > 1 {
				t.Fatalf("must share a %s, and is in %v", level, used)
			}
		}
		if slices.Equal(levels, []string{"block"}) {
			p.holdFewestRacks(t, at)
		}
		p.holdRankOrder(t, at)
	})
	if started == 0 || waited == 0 {
		t.Errorf("%d gangs started and %d waited: one kind is missing", started, waited)
	}
}

// holdRankOrder holds that from each member to the next one by index another domain is entered as seldom as possible: of the
// topology that the group names first, and of single nodes.
func (p *places) holdRankOrder(t *rapid.T, at map[string]*model.Node) {
	levels := []string{"block", "rack", "host"}
	if p.job.Topology[0].Level == "clique" {
		levels = []string{"clique", "host"}
	}
	for i, level := range levels {
		key := func(member int) (path string) {
			for _, one := range levels[:i+1] {
				path += "/" + p.label(at[fmt.Sprint("m", member)], one)
			}
			return path
		}
		entered, seen := 0, map[string]bool{}
		for member := range len(p.job.Tasks) {
			if member == 0 || key(member) != key(member-1) {
				entered++
			}
			seen[key(member)] = true
		}
		if entered != len(seen) {
			t.Fatalf("%+v: a %s is entered %d times, of which there are %d\n%s", p.job.Topology, level, entered, len(seen), p)
		}
	}
}

// used returns the domains of a level that the members are in.
func (p *places) used(at map[string]*model.Node, level string) []string {
	domains := map[string]bool{}
	for _, node := range at {
		domains[p.label(node, level)] = true
	}
	return slices.Sorted(maps.Keys(domains))
}

// holdFewestRacks holds that a gang that shares a block is in as few racks as are possible in any block, if it is in racks alone.
func (p *places) holdFewestRacks(t *rapid.T, at map[string]*model.Node) {
	least := len(p.snapshot.Nodes) + 1
	for _, block := range p.combinations([]string{"block"}) {
		racks := map[string]int64{}
		for _, node := range block {
			if rack := p.label(node, "rack"); rack != "" {
				racks[rack] += node.Allocatable.At(model.CPU)
			}
		}
		left := int64(p.job.MinMember)
		sizes := slices.Sorted(maps.Values(racks))
		for n, size := range slices.Backward(sizes) {
			if left -= size; left <= 0 {
				least = min(least, len(sizes)-n)
				break
			}
		}
	}
	if used := p.used(at, "rack"); least == 1 && (len(used) > 1 || used[0] == "") {
		t.Fatalf("one rack would do, %v are used", used)
	}
}

// TestPreferencesKeepNoGangFromStarting is invariant T7 where nothing is waited for: a gang of one shape starts if and only if it
// would without the entries that only prefer; of these a single one is met if it can be, and the order of members is as for all.
func TestPreferencesKeepNoGangFromStarting(t *testing.T) {
	met, unmet := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlaces(t)
		var levels []string
		for i := range p.job.Topology {
			shared := &p.job.Topology[i]
			if shared.Preferred = i == 0 || rapid.Bool().Draw(t, "preferred"); !shared.Preferred {
				levels = append(levels, shared.Level)
			}
		}
		possible := len(levels) == 0 && fits(p.snapshot.Nodes) >= int64(p.job.MinMember)
		for _, nodes := range p.combinations(levels) {
			possible = possible || fits(nodes) >= int64(p.job.MinMember)
		}
		at, refusal := p.cycle()
		if got := len(at) == int(p.job.MinMember); got != possible || len(at) > 0 && !got {
			t.Fatalf("%+v: %d of %d members are bound; possible: %v; %s\n%s", p.job.Topology, len(at), p.job.MinMember, possible, refusal, p)
		}
		if !possible {
			return
		}
		if p.job.Topology[0].Level != config.LevelHost {
			p.holdRankOrder(t, at)
		}
		for _, level := range levels {
			if used := p.used(at, level); len(used) > 1 {
				t.Fatalf("must share a %s, and is in %v", level, used)
			}
		}
		first := p.job.Topology[0].Level
		holds := false
		for _, nodes := range p.combinations([]string{first}) {
			holds = holds || fits(nodes) >= int64(p.job.MinMember)
		}
		if used := p.used(at, first); holds && len(p.job.Topology) == 1 && (len(used) > 1 || used[0] == "") {
			t.Fatalf("one %s would do, %v are used\n%s", first, used, p)
		}
		if holds {
			met++
		} else {
			unmet++
		}
	})
	if met == 0 || unmet == 0 {
		t.Errorf("%d preferences could be met and %d could not: one kind is missing", met, unmet)
	}
}

// TestFewMembersAreFoundADomainExactly compares with a solver that tries everything: members of several shapes and roles, and
// nodes that filters rule out.
func TestFewMembersAreFoundADomainExactly(t *testing.T) {
	started, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := &places{problem: draw(t)}
		for _, node := range p.snapshot.Nodes {
			labels := drawLabels(t)
			node.Object = labels
		}
		p.drawLevels(t, []string{"r", ""})
		possible := p.solve(map[*model.Task]*model.Node{}, 0)
		at, refusal := p.cycle()
		if !possible && strings.Contains(refusal.String(), notAll) {
			t.Fatalf("%+v: %s\n%s", p.job.Topology, refusal, p)
		}
		if (len(at) > 0) != possible {
			t.Fatalf("%+v: %d members are bound; possible: %v\n%s", p.job.Topology, len(at), possible, p)
		}
		if possible {
			started++
		} else {
			waited++
		}
	})
	if started == 0 || waited == 0 {
		t.Errorf("%d gangs started and %d waited: one kind is missing", started, waited)
	}
}

func (p *places) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "minimum %d, roles %v\n", p.job.MinMember, p.job.Roles)
	for _, node := range p.snapshot.Nodes {
		fmt.Fprintf(&b, "%s %v %v\n", node.Name, node.Allocatable[:2], node.Object.Labels)
	}
	for _, task := range p.job.Tasks {
		fmt.Fprintf(&b, "%s %q asks %v, not on %v\n", task.Name, task.Role, task.Request, slices.Sorted(maps.Keys(task.Pod.Annotations)))
	}
	return b.String()
}

// solve places the members from one on, each or not, until the job may start.
func (p *places) solve(at map[*model.Task]*model.Node, from int) bool {
	if p.job.FirstUnmetMinimum(func(task *model.Task) bool { return at[task] != nil }) == nil {
		return true
	}
	if from == len(p.job.Tasks) || len(at)+len(p.job.Tasks)-from < int(p.job.MinMember) {
		return false
	}
	task := p.job.Tasks[from]
	for _, node := range p.snapshot.Nodes {
		if _, no := task.Pod.Annotations[node.Name]; no || !p.hasPlace(task, node, at) {
			continue
		}
		at[task] = node
		if p.solve(at, from+1) {
			return true
		}
		delete(at, task)
	}
	return p.solve(at, from+1)
}

func (p *places) hasPlace(task *model.Task, node *model.Node, at map[*model.Task]*model.Node) bool {
	left := node.Allocatable.Clone()
	for other, its := range at {
		if its == node {
			left.Sub(other.Request)
		}
	}
	if task.Request.At(0) > left.At(0) && task.Request.At(0) > 0 || task.Request.At(1) > left.At(1) && task.Request.At(1) > 0 {
		return false
	}
	for i := range p.job.Topology {
		shared := &p.job.Topology[i]
		if !shared.Covers(task) {
			continue
		}
		value := p.label(node, shared.Level)
		if value == "" {
			return false
		}
		for other, its := range at {
			if shared.Covers(other) && p.label(its, shared.Level) != value {
				return false
			}
		}
	}
	return true
}

// drawParts draws a gang whose roles each share a rack of their own, and all of them a block, or not.
func drawParts(t *rapid.T) *places {
	p := &places{problem: problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}}
	racks := rapid.IntRange(1, 6).Draw(t, "racks")
	for i := range rapid.IntRange(racks, 20).Draw(t, "nodes") {
		room := model.Resources{rapid.Int64Range(1, 3).Draw(t, "cpu"), 0, 0, 0}
		rack := i % racks
		p.snapshot.Nodes = append(p.snapshot.Nodes, &model.Node{
			Name: fmt.Sprintf("n%02d", i), Allocatable: room, Idle: room.Clone(),
			Releasing: make(model.Resources, 4), Pipelined: make(model.Resources, 4),
			Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"block": fmt.Sprint(rack % 2), "rack": fmt.Sprint(rack)}}},
		})
	}
	p.job = &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang"}
	for i := range rapid.IntRange(2, 8).Draw(t, "parts") {
		role := fmt.Sprint("r", i)
		n := rapid.Int32Range(1, 5).Draw(t, "members")
		p.job.Roles = append(p.job.Roles, model.Role{Name: role, MinMember: n})
		p.job.MinMember += n
		for range n {
			p.job.Tasks = append(p.job.Tasks, &model.Task{
				PodRef: model.PodRef{UID: types.UID(fmt.Sprintf("m%03d", len(p.job.Tasks))), Name: fmt.Sprint("m", len(p.job.Tasks))}, Job: p.job.Key,
				Role: role, Pod: &corev1.Pod{}, Request: model.Resources{1}, Shape: unique.Make("one"),
			})
		}
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{Level: "rack", Roles: []string{role}})
	}
	if rapid.Bool().Draw(t, "in a block") {
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{Level: "block"})
	}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

// packs reports whether parts from one on fit into what is left of the racks.
func packs(parts []int64, left []int64, seen map[string]bool) bool {
	if len(parts) == 0 {
		return true
	}
	state := fmt.Sprint(len(parts), left)
	if seen[state] {
		return false
	}
	for i := range left {
		if left[i] >= parts[0] {
			left[i] -= parts[0]
			if packs(parts[1:], left, seen) {
				return true
			}
			left[i] += parts[0]
		}
	}
	seen[state] = true
	return false
}

// TestPartsOfOneShapeArePackedExactly: up to eight parts, each in one of six racks, start if and only if any choice of racks has
// capacity for all of them.
func TestPartsOfOneShapeArePackedExactly(t *testing.T) {
	started, waited := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawParts(t)
		var parts []int64
		for _, role := range p.job.Roles {
			parts = append(parts, int64(role.MinMember))
		}
		levels, possible := []string{"rack"}, false
		around := map[string][]*model.Node{"": p.snapshot.Nodes}
		if len(p.job.Topology) > len(p.job.Roles) {
			around = p.combinations([]string{"block"})
		}
		for _, nodes := range around {
			inside := &places{problem: problem{snapshot: &model.Snapshot{Nodes: nodes}}}
			var left []int64
			for _, rack := range inside.combinations(levels) {
				left = append(left, fits(rack))
			}
			possible = possible || packs(parts, left, map[string]bool{})
		}
		at, refusal := p.cycle()
		if got := len(at) == len(p.job.Tasks); got != possible || len(at) > 0 && !got {
			t.Fatalf("%v: %d of %d members are bound; possible: %v; %s\n%s", parts, len(at), p.job.MinMember, possible, refusal, p)
		}
		if possible {
			started++
		} else if waited++; strings.Contains(refusal.String(), notAll) {
			t.Fatalf("%v: %s", parts, refusal)
		}
	})
	if started == 0 || waited == 0 {
		t.Errorf("%d gangs started and %d waited: one kind is missing", started, waited)
	}
}
