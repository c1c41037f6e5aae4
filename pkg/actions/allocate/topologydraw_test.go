package allocate_test

import (
	"fmt"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// places is a cluster of blocks with racks, and of cliques across them, in which a gang waits.
type places struct {
	problem
	// boundBefore is how many members have a node before the cycle.
	boundBefore int
}

// trees are the topologies of the tests.
func trees() []config.Topology {
	return []config.Topology{
		{Name: "fabric", Levels: []config.Level{{Name: "block", Label: "block"}, {Name: "rack", Label: "rack"}}},
		{Name: "nvlink", Levels: []config.Level{{Name: "clique", Label: "clique"}}},
	}
}

// drawCase draws a gang that waits. Its class follows from what is drawn; each way to draw is the source of one of them.
func drawCase(t *rapid.T) *places {
	ways := []func(*rapid.T) *places{drawOneShape, drawOneShape, drawPreferring, drawFewMembers, drawParts, drawParts, drawManyParts, drawShapes}
	return rapid.SampledFrom(ways).Draw(t, "way")(t)
}

func newPlaces() *places {
	p := &places{problem: problem{snapshot: &model.Snapshot{Dimensions: model.NewDimensions()}}}
	p.job = &model.Job{Key: model.JobKey{Namespace: "default", Name: "gang"}, UID: "gang"}
	p.snapshot.Jobs = []*model.Job{p.job}
	return p
}

// addNode adds a node with capacity for so many members that ask for one.
func (p *places) addNode(cpu int64, labels *corev1.Node) {
	room := model.Resources{cpu, 0, 0, 0}
	p.snapshot.Nodes = append(p.snapshot.Nodes, model.NewNode(fmt.Sprintf("n%02d", len(p.snapshot.Nodes)), labels, room))
}

// addMembers adds members of one role that ask for so much, and may not be on some of the nodes.
func (p *places) addMembers(role string, n int, cpu int64, not map[string]string) {
	for range n {
		p.job.Tasks = append(p.job.Tasks, &model.Task{
			PodRef: model.PodRef{UID: types.UID(fmt.Sprintf("m%03d", len(p.job.Tasks))), Name: fmt.Sprint("m", len(p.job.Tasks))},
			Job:    p.job.Key, Role: role, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: not}},
			Request: model.Resources{cpu}, Shape: unique.Make(fmt.Sprint(cpu, not)),
		})
	}
}

// drawLabels draws the domains of a node, up to most of each level, or none.
func drawLabels(t *rapid.T, most int) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for _, label := range []string{"block", "rack", "clique"} {
		if value := rapid.IntRange(0, 2*most).Draw(t, label); value > 0 {
			node.Labels[label] = fmt.Sprint((value + 1) / 2)
		}
	}
	return node
}

// drawNodes draws nodes of random domains.
func (p *places) drawNodes(t *rapid.T, most int) {
	domains := rapid.IntRange(1, 3).Draw(t, "domains")
	for range rapid.IntRange(1, most).Draw(t, "nodes") {
		p.addNode(rapid.Int64Range(0, 4).Draw(t, "cpu"), drawLabels(t, domains))
	}
}

// drawBarred draws nodes that members may not be on.
func (p *places) drawBarred(t *rapid.T) map[string]string {
	not := map[string]string{}
	if rapid.IntRange(0, 3).Draw(t, "filter") > 0 {
		return not
	}
	for _, node := range p.snapshot.Nodes {
		if rapid.IntRange(0, 3).Draw(t, "barred") == 0 {
			not[node.Name] = ""
		}
	}
	return not
}

var levels = []string{"block", "block", "rack", "rack", "clique", "host"}

// drawEntries draws domains that all members share, slices of one or two sizes of which one is a multiple of the other, and a
// level that they prefer.
func (p *places) drawEntries(t *rapid.T) {
	level := func() string { return rapid.SampledFrom(levels).Draw(t, "level") }
	add := func(entry model.TopologyConstraint) { p.job.Topology = append(p.job.Topology, entry) }
	for range rapid.IntRange(0, 2).Draw(t, "entries") {
		add(model.TopologyConstraint{Level: level()})
	}
	size := rapid.Int32Range(2, 4).Draw(t, "size")
	for i := range rapid.SampledFrom([]int32{0, 0, 1, 2}).Draw(t, "slices") {
		add(model.TopologyConstraint{Level: level(), SliceSize: size * (1 + i*rapid.Int32Range(0, 2).Draw(t, "times"))})
	}
	if len(p.job.Topology) == 0 || rapid.IntRange(0, 2).Draw(t, "prefers") == 0 {
		add(model.TopologyConstraint{Level: level(), Preferred: true})
	}
}

// drawOneShape draws a gang of one shape, all members of which share domains, or in slices.
func drawOneShape(t *rapid.T) *places {
	p := newPlaces()
	p.drawNodes(t, 20)
	p.drawMembers(t, 16)
	p.drawEntries(t)
	switch rapid.IntRange(0, 5).Draw(t, "state") {
	case 0:
		p.job.MinMember = rapid.Int32Range(1, p.job.MinMember).Draw(t, "minimum")
	case 1:
		p.drawBound(t)
	}
	return p
}

// drawMembers draws members of one shape, of which all are needed.
func (p *places) drawMembers(t *rapid.T, most int32) {
	p.job.MinMember = rapid.Int32Range(1, most).Draw(t, "members")
	p.addMembers("", int(p.job.MinMember), rapid.SampledFrom([]int64{1, 1, 1, 2}).Draw(t, "asks"), p.drawBarred(t))
}

// drawPreferring draws a gang that prefers a rack and is often too large for one, of few racks in two or three blocks, with
// cliques across them.
func drawPreferring(t *rapid.T) *places {
	p := newPlaces()
	blocks, racks := rapid.IntRange(2, 3).Draw(t, "blocks"), rapid.IntRange(4, 8).Draw(t, "racks")
	for i := range rapid.IntRange(racks, 24).Draw(t, "nodes") {
		labels := drawLabels(t, 2).Labels
		labels["block"], labels["rack"] = fmt.Sprint(i%racks%blocks), fmt.Sprint(i%racks)
		if rapid.IntRange(0, 15).Draw(t, "no rack") == 0 {
			delete(labels, "rack")
		}
		p.addNode(rapid.Int64Range(0, 4).Draw(t, "cpu"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}})
	}
	p.drawMembers(t, 24)
	p.job.Topology = []model.TopologyConstraint{{Level: "rack", Preferred: true}}
	switch rapid.IntRange(0, 5).Draw(t, "and") {
	case 0:
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{Level: rapid.SampledFrom([]string{"block", "clique"}).Draw(t, "level")})
	case 1:
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{
			Level: rapid.SampledFrom(levels[2:]).Draw(t, "level"), SliceSize: rapid.Int32Range(2, 4).Draw(t, "size"),
		})
	}
	return p
}

// drawBound places some of the members where they may be.
func (p *places) drawBound(t *rapid.T) {
	at := map[*model.Task]*model.Node{}
	for _, task := range p.job.Tasks {
		node := rapid.SampledFrom(p.snapshot.Nodes).Draw(t, "node")
		if _, no := task.Pod.Annotations[node.Name]; no || rapid.Bool().Draw(t, "waits") || !p.hasPlace(task, node, at) {
			continue
		}
		at[task] = node
		p.snapshot.Move(task, model.Placement{Status: model.Running, Node: node.Name})
		p.boundBefore++
	}
}

// hasPlace reports whether a member may be on a node beside those that have one.
func (p *places) hasPlace(task *model.Task, node *model.Node, at map[*model.Task]*model.Node) bool {
	if task.Request.At(0) > node.Idle(0) {
		return false
	}
	o := &oracle{p: p}
	o.share()
	for i, group := range o.shares[task] {
		if group < 0 {
			continue
		}
		level := p.job.Topology[i].Level
		if p.label(node, level) == "" {
			return false
		}
		for other, its := range at {
			if o.shares[other][i] == group && p.label(its, level) != p.label(node, level) {
				return false
			}
		}
	}
	return true
}

// drawFewMembers draws up to eight members of any requests and roles, on up to six nodes.
func drawFewMembers(t *rapid.T) *places {
	p := &places{problem: draw(t)}
	for _, node := range p.snapshot.Nodes {
		node.Object = drawLabels(t, 3)
	}
	for range rapid.IntRange(1, 2).Draw(t, "entries") {
		entry := model.TopologyConstraint{Level: rapid.SampledFrom(levels).Draw(t, "level"), Preferred: rapid.IntRange(0, 7).Draw(t, "prefers") == 0}
		if rapid.Bool().Draw(t, "of a role") {
			entry.Roles = []string{rapid.SampledFrom([]string{"r", ""}).Draw(t, "role")}
		}
		p.job.Topology = append(p.job.Topology, entry)
	}
	if !p.job.Topology[0].Preferred && rapid.IntRange(0, 3).Draw(t, "sliced") == 0 {
		p.job.Topology[0].SliceSize = rapid.Int32Range(2, 4).Draw(t, "size")
	}
	return p
}

// drawParts draws a gang of one shape whose roles each share a domain of their own, or have slices of their own, and all of
// them a block, or not.
func drawParts(t *rapid.T) *places {
	p := newPlaces()
	mixed, most, nodes := rapid.IntRange(0, 2).Draw(t, "levels") == 0, 8, 20
	if mixed {
		most, nodes = 4, 9 // the oracle takes long otherwise
	}
	if rapid.Bool().Draw(t, "at random") {
		p.drawNodes(t, nodes)
	} else {
		p.drawRacks(t, rapid.IntRange(1, 6).Draw(t, "racks"), nodes, 3)
	}
	not := p.drawBarred(t)
	for i := range rapid.IntRange(1, most).Draw(t, "parts") {
		n := rapid.IntRange(1, 5).Draw(t, "members")
		entry := model.TopologyConstraint{Level: "rack", Roles: []string{fmt.Sprint("r", i)}}
		if mixed {
			entry.Level = rapid.SampledFrom(levels).Draw(t, "level")
		}
		if n > 2 && rapid.IntRange(0, 5).Draw(t, "sliced") == 0 {
			entry.SliceSize = rapid.Int32Range(2, 3).Draw(t, "size")
		}
		p.addPart(entry, n, not)
	}
	if rapid.Bool().Draw(t, "together") {
		p.job.Topology = append(p.job.Topology, model.TopologyConstraint{Level: rapid.SampledFrom(levels[:4]).Draw(t, "level")})
	}
	if rapid.IntRange(0, 4).Draw(t, "state") == 0 {
		p.drawBound(t)
	}
	return p
}

// drawRacks draws nodes in so many racks of two blocks.
func (p *places) drawRacks(t *rapid.T, racks, nodes int, cpu int64) {
	for i := range rapid.IntRange(racks, nodes).Draw(t, "nodes") {
		rack := i % racks
		p.addNode(rapid.Int64Range(1, cpu).Draw(t, "cpu"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{"block": fmt.Sprint(rack % 2), "rack": fmt.Sprint(rack)},
		}})
	}
}

// addPart adds a role of so many members.
func (p *places) addPart(entry model.TopologyConstraint, n int, not map[string]string) {
	role := entry.Roles[0]
	p.job.Roles = append(p.job.Roles, model.Role{Name: role, MinMember: int32(n)})
	p.job.MinMember += int32(n)
	p.addMembers(role, n, 1, not)
	p.job.Topology = append(p.job.Topology, entry)
}

// drawManyParts draws parts of 2 to 9 members that take most of four racks.
func drawManyParts(t *rapid.T) *places {
	p := newPlaces()
	var room int64
	for rack := range 4 {
		for range 3 {
			cpu := rapid.Int64Range(3, 5).Draw(t, "cpu")
			room += cpu
			p.addNode(cpu, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": fmt.Sprint(rack)}}})
		}
	}
	left := int(room * rapid.SampledFrom([]int64{80, 90, 100}).Draw(t, "load") / 100)
	for i := 0; left >= 2; i++ {
		n := min(left, rapid.IntRange(2, 9).Draw(t, "members"))
		p.addPart(model.TopologyConstraint{Level: "rack", Roles: []string{fmt.Sprint("r", i)}}, n, nil)
		left -= n
	}
	return p
}

// drawShapes draws a gang of two or three roles of different requests.
func drawShapes(t *rapid.T) *places {
	p := newPlaces()
	p.drawNodes(t, 8)
	var roles []string
	for i := range rapid.IntRange(2, 3).Draw(t, "roles") {
		roles = append(roles, fmt.Sprint("r", i))
		p.addMembers(roles[i], rapid.IntRange(1, 5).Draw(t, "members"), rapid.Int64Range(1, 3).Draw(t, "asks"), p.drawBarred(t))
	}
	p.job.MinMember = int32(len(p.job.Tasks))
	if rapid.IntRange(0, 3).Draw(t, "surplus") == 0 {
		p.job.MinMember = rapid.Int32Range(1, p.job.MinMember).Draw(t, "minimum")
	}
	for range rapid.IntRange(1, 2).Draw(t, "entries") {
		entry := model.TopologyConstraint{Level: rapid.SampledFrom(levels).Draw(t, "level")}
		if rapid.Bool().Draw(t, "of a role") {
			entry.Roles = slices.Clone(roles[:rapid.IntRange(1, len(roles)).Draw(t, "of")])
		}
		p.job.Topology = append(p.job.Topology, entry)
	}
	return p
}
