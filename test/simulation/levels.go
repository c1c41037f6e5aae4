package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file is levels of a topology: the labels of nodes, what happens to them, and what jobs say of which members share a
// domain. All of it is drawn from random numbers of its own, by the names of nodes and jobs, so that a cluster without levels is
// what it was before there were any.

// The labels of nodes by which levels are declared.
const (
	blockLabel  = "topology.example.com/block"
	rackLabel   = "topology.example.com/rack"
	cliqueLabel = "topology.example.com/clique"
)

// The levels. byRackKey is the label that all nodes have, by its key; unknownLevel is declared nowhere.
const (
	levelBlock   = "block"
	levelRack    = "rack"
	levelClique  = "clique"
	byRackKey    = "label:rack"
	unknownLevel = "row"
)

// topologies declares them.
const topologies = `topologies:
- name: fabric
  levels: [{name: block, label: topology.example.com/block}, {name: rack, label: topology.example.com/rack}]
- name: nvlink
  levels: [{name: clique, label: topology.example.com/clique}]
`

// withTopologies declares levels in a configuration, and often adds the score that keeps domains whole.
func withTopologies(d rng, text []byte) []byte {
	declared := string(text) + topologies
	if d.chance(500) {
		declared = strings.Replace(declared, "  - name: nodeorder\n", "  - name: nodeorder\n  - name: topology\n", 1)
	}
	return []byte(declared)
}

// labelsOf returns the tree of a level and its labels, from the widest on; none for single nodes.
func labelsOf(level string) (tree string, labels []string, known bool) {
	switch level {
	case config.LevelHost:
		return "", nil, true
	case levelBlock:
		return "fabric", []string{blockLabel}, true
	case levelRack:
		return "fabric", []string{blockLabel, rackLabel}, true
	case levelClique:
		return "nvlink", []string{cliqueLabel}, true
	case byRackKey:
		return "", []string{"rack"}, true
	}
	return "", nil, false
}

// drawDomain draws the value of a label; empty is none. One name is the beginning of another, and racks of two blocks have one
// name.
func drawDomain(d rng, label string) string {
	first := map[string]string{blockLabel: "b1", rackLabel: "r1", cliqueLabel: "c1"}[label]
	return pick(d, first, first+"0", first, first+"0", first, first+"0", "")
}

// domainLabels returns those of a node, the same whenever it is made.
func (w *world) domainLabels(name string) map[string]string {
	d, labels := newRandom(w.config.Seed, "labels of "+name), map[string]string{}
	for _, label := range []string{blockLabel, rackLabel, cliqueLabel} {
		if value := drawDomain(d, label); value != "" {
			labels[label] = value
		}
	}
	return labels
}

// topologyActions are the steps that change labels of nodes and what groups say, and how often each is.
func topologyActions() []step {
	return []step{
		{"move a node to another domain", 3, (*world).moveLabel},
		{"take labels away", 6, (*world).takeLabels},
		{"edit a topology", 3, (*world).editTopology},
		{"submit gangs that share domains", 8, (*world).submitSharing},
	}
}

// moveLabel gives a node another value of a label, or none.
func (w *world) moveLabel(d rng) {
	if name, ok := w.some(d, kindNode); ok {
		label := pick(d, blockLabel, rackLabel, rackLabel, cliqueLabel)
		w.changeNode(name, func(node *corev1.Node) {
			if node.Labels[label] = drawDomain(d, label); node.Labels[label] == "" {
				delete(node.Labels, label)
			}
		})
	}
}

// takeLabels takes the labels of levels from a node, mostly for some seconds, as a program does that starts again.
func (w *world) takeLabels(d rng) {
	name, ok := w.some(d, kindNode)
	if !ok {
		return
	}
	taken := map[string]string{}
	w.changeNode(name, func(node *corev1.Node) {
		for _, label := range []string{blockLabel, rackLabel, cliqueLabel} {
			if value := node.Labels[label]; value != "" && d.chance(800) {
				taken[label] = value
				delete(node.Labels, label)
			}
		}
	})
	if d.chance(800) {
		w.later(d.span(0, 30*time.Second), "labels come back", func() {
			w.changeNode(name, func(node *corev1.Node) { maps.Copy(node.Labels, taken) })
		})
	}
}

// editTopology changes which members of a group share domains.
func (w *world) editTopology(d rng) {
	name, ok := w.some(d, kindGroup)
	if !ok {
		return
	}
	group := w.server.group(name).DeepCopy()
	if group.Spec.Topology = nil; d.chance(800) {
		group.Spec.Topology = drawTopology(d, group.Spec.Roles)
	}
	group.Generation++
	w.server.update(kindGroup, group)
}

// submitSharing submits gangs of small pods that share domains, most of them until they are deleted, and often loses a member of
// one later.
func (w *world) submitSharing(d rng) {
	for range d.number(1, 3) {
		j := w.newJob(d, "s")
		j.gang, j.members, j.gated, j.selector, j.recreate = true, d.number(2, 6), false, nil, d.chance(900)
		j.min, j.requests = d.number(2, j.members), amounts(pick(d, 1, 1, 2), 0)
		j.grace, j.runs = pick(d, 0, time.Second, 10*time.Second), pick(d, 0, 0, d.span(10*time.Second, 40*time.Second))
		j.topology, j.numbered = drawTopology(d, nil), d.chance(300)
		w.submit(d, j)
		if d.chance(700) {
			w.later(d.span(10*time.Second, 40*time.Second), "a member is lost", func() { w.loseMember(d, j) })
		}
	}
}

// loseMember deletes one of the pods of a job that have a node.
func (w *world) loseMember(d rng, j *job) {
	var members []*corev1.Pod
	for _, pod := range w.server.pods() {
		if w.jobOf(pod) == j && pod.Spec.NodeName != "" {
			members = append(members, pod)
		}
	}
	if len(members) > 0 {
		w.server.deletePod(keyOf(members[d.IntN(len(members))]), 0)
	}
}

// chooseTopology makes most gangs share domains.
func (w *world) chooseTopology(j *job) {
	d := newRandom(w.config.Seed, "topology of "+j.name)
	if !w.config.Topology || d.chance(250) {
		return
	}
	j.topology, j.numbered = drawTopology(d, j.roles), d.chance(300)
}

// drawTopology draws which members share domains, such as the API server takes it.
func drawTopology(d rng, roles []v1alpha1.Role) (topology []v1alpha1.TopologyConstraint) {
	for range pick(d, 1, 1, 2) {
		one := v1alpha1.TopologyConstraint{
			Level: pick(d, levelBlock, levelBlock, levelRack, levelRack, levelRack, levelClique, config.LevelHost, byRackKey), Mode: v1alpha1.TopologyRequired,
		}
		if d.chance(30) {
			one.Level = unknownLevel
		}
		switch {
		case d.chance(300):
			if one.Mode = v1alpha1.TopologyPreferred; d.chance(400) {
				one.WaitSeconds = int32(d.number(1, 60))
			}
		case d.chance(350):
			one.SliceSize = int32(pick(d, 2, 2, 3, 4))
		}
		if len(roles) > 0 && d.chance(500) {
			one.Roles = []string{roles[d.IntN(len(roles))].Name}
		}
		if !slices.ContainsFunc(topology, func(other v1alpha1.TopologyConstraint) bool { return reflect.DeepEqual(one, other) }) {
			topology = append(topology, one)
		}
	}
	return topology
}

// place writes on a pod what its job says of domains where no PodGroup of ours says it, and the index of one that is numbered.
func (w *world) place(j *job, pod *corev1.Pod) {
	if len(j.topology) == 0 {
		return
	}
	if j.implicit || j.source != model.SourcePodGroup {
		text, _ := json.Marshal(j.topology) // plain data
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationTopology, string(text))
	}
	if !j.numbered {
		return
	}
	used := map[string]bool{}
	for _, other := range w.server.pods() {
		if w.jobOf(other) == j && runOf(other) == runOf(pod) && other.DeletionTimestamp == nil && other.Status.Phase != corev1.PodFailed {
			used[other.Labels[v1alpha1.LabelIndex]] = true
		}
	}
	index := 0
	for used[fmt.Sprint(index)] {
		index++
	}
	pod.Labels[v1alpha1.LabelIndex] = fmt.Sprint(index)
}
