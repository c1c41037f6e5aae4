package debugapi

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// readNodes makes the document of all nodes.
func readNodes(shown Inspected, _ string) (list *NodeList, finish func()) {
	snapshot := shown.Snapshot
	list = &NodeList{ListMeta: shown.about("NodeList"), Items: make([]Node, 0, len(snapshot.Nodes))}
	for _, node := range snapshot.Nodes {
		item := showNode(node, snapshot.Dimensions)
		for _, hold := range snapshot.HeldAt(node.Name) {
			kept := Kept{Job: hold.Job.String(), Pod: hold.Pod.Name, Resources: snapshot.Dimensions.List(hold.Request)}
			if !hold.Reserved() {
				item.Nominated = append(item.Nominated, kept)
				continue
			}
			if hold.LentUntil > 0 {
				kept.LentUntil = new(time.Unix(hold.LentUntil, 0).UTC())
			}
			item.Reserved = append(item.Reserved, kept)
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// showNode shows a node, without what is kept on it. Resources that are counted per device have no numbers here.
func showNode(node *model.Node, dimensions *model.ResourceIndex) Node {
	list := func(vector model.Resources) corev1.ResourceList {
		list := dimensions.List(vector)
		for i, amount := range node.Allocatable() {
			if amount == model.ProvidedByDRA {
				delete(list, dimensions.Name(i))
			}
		}
		return list
	}
	amounts := node.Amounts()
	item := Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Unschedulable: node.Object != nil && node.Object.Spec.Unschedulable,
		Refused: node.Invalid.String(), Pods: len(node.Tasks), Uncounted: node.Uncounted,
		Allocatable: list(node.Allocatable()), Idle: list(amounts.Idle), Releasing: list(amounts.Releasing),
	}
	if topology := node.Isolated; topology != nil {
		held := node.HeldCPUs(false)
		free := topology.Isolated.Minus(held)
		item.Isolated = &Isolated{
			CPUs: topology.Isolated.String(), Held: held.String(), FreeCPUs: free.String(), Total: topology.Isolated.Len(), Free: free.Len(),
			Stale: node.AgentExpired,
		}
	}
	return item
}
