package inprocess

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	config "github.com/tutti-sched/tutti/apis/config/v1alpha1"
	"github.com/tutti-sched/tutti/apis/scheduling/v1alpha1"
	"github.com/tutti-sched/tutti/pkg/plugins/topology"
)

// Topology is which levels a cluster has, and which domains the members of gangs that wait share.
type Topology string

// The topologies.
const (
	// Unlabelled nodes have no labels of levels.
	Unlabelled Topology = ""
	// Labelled nodes have labels of levels that the configuration does not declare.
	Labelled Topology = "labels"
	// Declared levels are those of the labels; no gang names one. It holds for the following ones, too.
	Declared Topology = "declared"
	// InBlock gangs share a block, and prefer to share a rack.
	InBlock Topology = "block"
	// InCliques gangs share a block; every 16 members share a clique.
	InCliques Topology = "cliques"
	// InRoles gangs share a block; of each half of the members, which is a role, every 20 share a rack.
	InRoles Topology = "roles"
	// InRacks gangs share a rack.
	InRacks Topology = "racks"
)

// Topologies are all of them but that without labels.
func Topologies() []Topology {
	return []Topology{Labelled, Declared, InBlock, InCliques, InRoles, InRacks}
}

// How many nodes the domains have, node by node in the order of their names: racks nest in blocks, cliques reach across both.
const (
	nodesOfRack, nodesOfBlock, nodesOfClique = 20, 1000, 18
	sliceInClique, sliceInRack               = 16, 20
)

// The names of the levels, and the prefix of their labels.
const (
	blockLevel, rackLevel, cliqueLevel = "block", "rack", "clique"
	levelPrefix                        = "topology.example.com/"
)

// declare adds blocks of racks, and cliques, to the configuration, and the plugin that keeps pods of jobs without a level out of
// whole ones.
func (t Topology) declare(configuration *config.Configuration) {
	if t == Unlabelled || t == Labelled {
		return
	}
	last := &configuration.Tiers[len(configuration.Tiers)-1]
	last.Plugins = append(last.Plugins, config.Plugin{Name: topology.Name})
	level := func(name string) config.Level { return config.Level{Name: name, Label: levelPrefix + name} }
	configuration.Topologies = []config.Topology{
		{Name: "fabric", Levels: []config.Level{level(blockLevel), level(rackLevel)}},
		{Name: "nvlink", Levels: []config.Level{level(cliqueLevel)}},
	}
}

// label writes the labels of a node with a number. Racks of different blocks have the same names.
func (t Topology) label(node *corev1.Node, i int) {
	if t == Unlabelled {
		return
	}
	node.Labels[levelPrefix+blockLevel] = "b" + strconv.Itoa(i/nodesOfBlock)
	node.Labels[levelPrefix+rackLevel] = "r" + strconv.Itoa(i%nodesOfBlock/nodesOfRack)
	node.Labels[levelPrefix+cliqueLevel] = "c" + strconv.Itoa(i/nodesOfClique)
}

// gpus is how many of the eight GPUs of a node each member has where members have whole nodes: half of them where so many slices
// share a block that it does not have as many cliques.
func (t Topology) gpus() int64 {
	if t == InCliques {
		return 4
	}
	return 8
}

// entries are what a gang says.
func (t Topology) entries() []v1alpha1.TopologyConstraint {
	shared := func(level string) v1alpha1.TopologyConstraint { return v1alpha1.TopologyConstraint{Level: level} }
	sliced := func(level string, size int32, roles ...string) v1alpha1.TopologyConstraint {
		return v1alpha1.TopologyConstraint{Level: level, SliceSize: size, Roles: roles}
	}
	switch t {
	case InBlock:
		return []v1alpha1.TopologyConstraint{shared(blockLevel), {Level: rackLevel, Mode: v1alpha1.TopologyPreferred}}
	case InCliques:
		return []v1alpha1.TopologyConstraint{shared(blockLevel), sliced(cliqueLevel, sliceInClique)}
	case InRoles:
		return []v1alpha1.TopologyConstraint{
			shared(blockLevel), sliced(rackLevel, sliceInRack, halves[0]), sliced(rackLevel, sliceInRack, halves[1]),
		}
	case InRacks:
		return []v1alpha1.TopologyConstraint{shared(rackLevel)}
	case Unlabelled, Labelled, Declared:
	}
	return nil
}

// halves are the roles of gangs in roles.
var halves = [2]string{"prefill", "decode"}

// share lets gangs say what the topology says, but for those that start behind hopeless ones.
func (b *Batch) share(w Workload) {
	entries, members := w.Topology.entries(), b.Pods
	if entries == nil {
		return
	}
	for _, group := range b.Groups[:w.Gangs()] {
		group.Spec.Topology = entries
		size := int(group.Spec.MinMember)
		if w.Topology == InRoles {
			group.Spec.Roles = []v1alpha1.Role{
				{Name: halves[0], MinMember: int32(size / 2)}, {Name: halves[1], MinMember: int32(size - size/2)},
			}
			for i, pod := range members[:size] {
				pod.Labels[v1alpha1.LabelRole] = halves[2*i/size]
			}
		}
		members = members[size:]
	}
}
