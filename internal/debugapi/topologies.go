package debugapi

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/framework"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes the document of the domains. The loop only adds up numbers, between two cycles.

// TopologyInspector reports which domains the loop's snapshot has of the configured levels. It is safe for concurrent use.
type TopologyInspector struct{ *inspector[*treesCopy] }

// NewTopologyInspector returns the inspector of a loop's domains.
func NewTopologyInspector(loop Loop, clock clock.PassiveClock) TopologyInspector {
	return TopologyInspector{newInspector(loop, clock, copyTrees)}
}

// Topologies returns the document of all domains.
func (i TopologyInspector) Topologies(ctx context.Context) (*Topologies, error) {
	copied, err := i.copy(ctx)
	if err != nil {
		return nil, err
	}
	document := &Topologies{At: copied.at, Leading: copied.leading, Topologies: []Topology{}}
	for _, tree := range copied.of.trees {
		topology := Topology{Name: tree.name, Levels: []TopologyLevel{}}
		for _, level := range tree.levels {
			topology.Levels = append(topology.Levels, level.document(copied.of.dimensions))
		}
		document.Topologies = append(document.Topologies, topology)
	}
	return document, nil
}

// treesCopy is a copy of what a snapshot says of the domains.
type treesCopy struct {
	// dimensions are those of the copy: the loop's own may grow.
	dimensions *model.ResourceIndex
	trees      []treeCopy
}

type treeCopy struct {
	name   string
	levels []levelCopy
}

type levelCopy struct {
	name       string
	unlabelled int
	domains    []domainCopy
}

type domainCopy struct {
	path              string
	nodes, used       int
	allocatable, idle model.Resources
}

func copyTrees(shown Inspected) *treesCopy {
	c := &treesCopy{dimensions: shown.Snapshot.Dimensions.Clone()}
	for _, tree := range shown.Trees() {
		copied := treeCopy{name: tree.Name}
		for _, level := range tree.Levels {
			copied.levels = append(copied.levels, copyLevel(shown.Snapshot, level))
		}
		c.trees = append(c.trees, copied)
	}
	return c
}

func copyLevel(snapshot *model.Snapshot, level *framework.Domains) levelCopy {
	copied := levelCopy{name: level.Level, unlabelled: level.Unlabelled(), domains: make([]domainCopy, level.Len())}
	used := level.UsedNodes(snapshot)
	for i := range copied.domains {
		domain := &copied.domains[i]
		domain.path, domain.nodes, domain.used = level.Path(i), len(level.Nodes(i)), used[i]
		for _, node := range level.Nodes(i) {
			domain.add(snapshot.Nodes[node])
		}
	}
	return copied
}

// add adds the capacity of a node. Resources that are counted per device have no numbers here.
func (d *domainCopy) add(node *model.Node) {
	takesPods := node.Invalid == nil && (node.Object == nil || !node.Object.Spec.Unschedulable)
	for position, amount := range node.Allocatable {
		if amount == model.ProvidedByDRA {
			continue
		}
		d.allocatable.Set(position, min(d.allocatable.At(position)+amount, model.MaxAmount))
		if idle := node.Idle.At(position); takesPods && idle > 0 {
			d.idle.Set(position, min(d.idle.At(position)+idle, model.MaxAmount))
		}
	}
}

func (l *levelCopy) document(dimensions *model.ResourceIndex) TopologyLevel {
	level := TopologyLevel{Name: l.name, Unlabelled: l.unlabelled, Domains: make([]TopologyDomain, len(l.domains))}
	for i := range l.domains {
		copied := &l.domains[i]
		level.Domains[i] = TopologyDomain{
			Path: copied.path, Nodes: copied.nodes, Used: copied.used,
			Allocatable: dimensions.List(copied.allocatable), Idle: dimensions.List(copied.idle),
		}
	}
	return level
}
