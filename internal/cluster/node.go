package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tutti-sched/tutti/pkg/isolated"
	"github.com/tutti-sched/tutti/pkg/model"
)

// nodeState is what the state knows about one node. It is never changed, only replaced.
type nodeState struct {
	object      *corev1.Node
	allocatable model.Resources
	refused     *model.Refusal
	// leaving is what pods that are gone have not given back yet; nil is nothing. uncounted is that of the model's node.
	leaving   model.Resources
	uncounted map[corev1.ResourceName]string
	// oldKubelet is that of the model's node.
	oldKubelet bool
	// isolated are its isolated CPUs; nil when it has none.
	isolated *isolated.Topology
	// unreadable reports that only the name of the node is known.
	unreadable bool
}

// readNode reads a node. One that cannot be read takes no pods, and keeps its name only.
func (s *State) readNode(object *corev1.Node) *nodeState {
	node := &nodeState{object: object}
	if refused := s.guard.run(identityOf(kindNode, object), func() { s.readCapacity(node) }); refused != nil {
		return &nodeState{
			object:     &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion}},
			refused:    &model.Refusal{Code: model.NodesFiltered, Detail: refused.Detail},
			unreadable: true,
		}
	}
	return node
}

// readCapacity works out what a node offers. It panics over a node that kube-scheduler's code would panic over in the view.
func (s *State) readCapacity(node *nodeState) {
	framework.NewNodeInfo().SetNode(node.object)
	node.allocatable, node.refused = s.capacity(node.object)
	if node.refused == nil {
		s.addDevices(node)
	}
	node.isolated, node.oldKubelet = topologyOf(node.object), isOldKubelet(node.object)
}

// minKubeletMinor is the first minor version of Kubernetes 1 whose kubelets prepare devices for extended resources by default.
const minKubeletMinor = 36

// isOldKubelet reports whether the node's kubelet would start a pod without the devices that stand for its extended resources.
// One that does not say what it is, is not taken for old.
func isOldKubelet(node *corev1.Node) bool {
	kubelet, err := version.ParseGeneric(node.Status.NodeInfo.KubeletVersion)
	return err == nil && kubelet.Major() == 1 && kubelet.Minor() < minKubeletMinor
}

// offers returns the resources of which the node reports more than nothing, by name; nil has none.
func (n *nodeState) offers() []corev1.ResourceName {
	if n == nil {
		return nil
	}
	list := n.object.Status.Allocatable
	return slices.DeleteFunc(slices.Sorted(maps.Keys(list)), func(name corev1.ResourceName) bool {
		amount := list[name]
		return amount.Sign() <= 0
	})
}

// readNodeAgain reads a node again because what it is read by has changed.
func (s *State) readNodeAgain(name string) {
	if node := s.nodes[name]; !node.unreadable {
		s.dirty.addNode(name, true)
		s.setNode(name, s.readNode(node.object))
	}
}

// setNode replaces what is known of a node; nil makes it gone.
func (s *State) setNode(name string, after *nodeState) {
	before := s.nodes[name]
	if after == nil {
		delete(s.nodes, name)
		s.leases.trackNode(name, nil)
	} else {
		s.nodes[name] = after
		s.leases.trackNode(name, after.isolated)
	}
	s.setOffers(before.offers(), after.offers())
	s.setReported(before.offers(), after.offers())
}

// NodeSeen is a new version of a node, or its end.
type NodeSeen struct {
	Node *corev1.Node
	Gone bool
}

func (e *NodeSeen) object() (string, metav1.Object, bool) { return kindNode, e.Node, e.Gone }

func (e *NodeSeen) apply(s *State, _ types.UID) Effect {
	before := s.nodes[e.Node.Name]
	if e.Gone {
		s.dirty.addNode(e.Node.Name, true)
		s.setNode(e.Node.Name, nil)
		s.readHoldersAgain(e.Node.Name)
		return Effect{Schedule: true}
	}
	after := s.readNode(e.Node)
	s.setNode(e.Node.Name, after)
	changed := before == nil || !sameCapacity(before, after)
	if changed && (after.isolated != nil || before != nil && before.isolated != nil) {
		s.conflicts.dirty[e.Node.Name] = struct{}{}
		s.leases.dirty = true // it may be another node
		s.readHoldersAgain(e.Node.Name)
	}
	s.dirty.addNode(e.Node.Name, changed)
	return Effect{Schedule: changed}
}

// topologyOf returns the node's isolated CPUs; nil when it has none, or when they cannot be read.
func topologyOf(object *corev1.Node) *isolated.Topology {
	text, there := object.Annotations[isolated.TopologyAnnotation]
	if !there {
		return nil
	}
	topology, err := isolated.ParseTopology(text)
	if err != nil || topology.Isolated.Empty() {
		return nil
	}
	return topology
}

// sameCapacity reports whether nothing changed that a pod could mind; a heartbeat does not.
func sameCapacity(a, b *nodeState) bool {
	return a.object.UID == b.object.UID &&
		a.allocatable.Equal(b.allocatable) && a.refused.String() == b.refused.String() &&
		equality.Semantic.DeepEqual(a.object.Labels, b.object.Labels) &&
		sameOwnAnnotations(a.object.Annotations, b.object.Annotations) &&
		a.object.Annotations[corev1.PreferAvoidPodsAnnotationKey] == b.object.Annotations[corev1.PreferAvoidPodsAnnotationKey] &&
		equality.Semantic.DeepEqual(a.object.Spec, b.object.Spec) &&
		equality.Semantic.DeepEqual(a.object.Status.Images, b.object.Status.Images) &&
		equality.Semantic.DeepEqual(a.object.Status.DeclaredFeatures, b.object.Status.DeclaredFeatures) &&
		sameConditions(a.object.Status.Conditions, b.object.Status.Conditions)
}

// sameConditions compares what the conditions say, not when they last said it.
func sameConditions(a, b []corev1.NodeCondition) bool {
	if len(a) != len(b) {
		return false
	}
	says := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(a))
	for i := range a {
		says[a[i].Type] = a[i].Status
	}
	for i := range b {
		if status, ok := says[b[i].Type]; !ok || status != b[i].Status {
			return false
		}
	}
	return true
}
