package debugapi

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// This file makes the document of the domains. The loop only adds up numbers, between two cycles.

// DomainInspector reports which domains the loop's snapshot has of the configured levels. It is safe for concurrent use.
type DomainInspector struct{ *inspector[*treesCopy] }

// NewDomainInspector returns the inspector of a loop's domains.
func NewDomainInspector(loop Loop, clock clock.PassiveClock) DomainInspector {
	return DomainInspector{newInspector(loop, clock, copyTrees)}
}

// Domains returns the document of all domains.
func (i DomainInspector) Domains(ctx context.Context) (*DomainList, error) {
	copied, err := i.copy(ctx, "")
	if err != nil {
		return nil, err
	}
	document := &DomainList{ListMeta: listMeta("DomainList", copied.at, copied.leading), Levels: []Level{}, Items: []Domain{}}
	for _, tree := range copied.of.trees {
		first := len(document.Items)
		for _, level := range tree.levels {
			document.Levels = append(document.Levels, Level{Topology: tree.name, Name: level.name, Unlabelled: level.unlabelled})
			for j := range level.domains {
				document.Items = append(document.Items, level.domains[j].document(tree.name, level.name, copied.of.dimensions))
			}
		}
		slices.SortStableFunc(document.Items[first:], func(a, b Domain) int { return comparePaths(a.Name, b.Name) })
	}
	return document, nil
}

// comparePaths puts a domain before those inside of it, and others in natural order.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), model.CompareNatural)
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

func copyTrees(shown Inspected, _ string) *treesCopy {
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

func copyLevel(snapshot *model.Snapshot, level *engine.Domains) levelCopy {
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

func (d *domainCopy) document(topology, level string, dimensions *model.ResourceIndex) Domain {
	return Domain{
		ObjectMeta: metav1.ObjectMeta{Name: d.path}, Topology: topology, Level: level, Nodes: d.nodes, Used: d.used,
		Allocatable: dimensions.List(d.allocatable), Idle: dimensions.List(d.idle),
	}
}
