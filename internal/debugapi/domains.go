package debugapi

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/engine"
	"github.com/tutti-sched/tutti/pkg/model"
)

// readDomains makes the document of the domains of all configured levels.
func readDomains(shown Inspected, _ string) (list *DomainList, finish func()) {
	list = &DomainList{ListMeta: shown.about("DomainList"), Levels: []Level{}, Items: []Domain{}}
	for _, tree := range shown.Trees() {
		first := len(list.Items)
		for _, level := range tree.Levels {
			list.Levels = append(list.Levels, Level{Topology: tree.Name, Name: level.Level, Unlabelled: level.Unlabelled()})
			used := level.UsedNodes(shown.Snapshot)
			for i := range level.Len() {
				domain := showDomain(shown.Snapshot, level, i)
				domain.Topology, domain.Used = tree.Name, used[i]
				list.Items = append(list.Items, domain)
			}
		}
		slices.SortStableFunc(list.Items[first:], func(a, b Domain) int { return comparePaths(a.Name, b.Name) })
	}
	return list, nil
}

// comparePaths puts a domain before those inside of it, and others in natural order.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), model.CompareNatural)
}

// showDomain adds up the capacity of the nodes of a domain. Resources that are counted per device have no numbers here.
func showDomain(snapshot *model.Snapshot, level *engine.Domains, i int) Domain {
	var allocatable, idle model.Resources
	for _, at := range level.Nodes(i) {
		node := snapshot.Nodes[at]
		takesPods := node.Invalid == nil && (node.Object == nil || !node.Object.Spec.Unschedulable)
		for position, amount := range node.Allocatable() {
			if amount == model.ProvidedByDRA {
				continue
			}
			allocatable.Set(position, min(allocatable.At(position)+amount, model.MaxAmount))
			if free := node.Idle(position); takesPods && free > 0 {
				idle.Set(position, min(idle.At(position)+free, model.MaxAmount))
			}
		}
	}
	return Domain{
		ObjectMeta: metav1.ObjectMeta{Name: level.Path(i)}, Level: level.Level, Nodes: len(level.Nodes(i)),
		Allocatable: snapshot.Dimensions.List(allocatable), Idle: snapshot.Dimensions.List(idle),
	}
}
