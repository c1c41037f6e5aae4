package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file tracks the nodes and the pods on them. It updates the counts and does not read them.

// nodeEntry is one node and the pods on it, as far as they matter.
type nodeEntry struct {
	node *model.Node
	// object is the node as it was counted.
	object *corev1.Node
	pods   []podTally
}

// podTally is so many pods of one kind.
type podTally struct {
	kind  podKind
	count int32
}

// podKind is all that matters about a pod on a node. The zero kind does not matter.
type podKind struct {
	// class is nil while labels do not matter; terms are nil when the pod has none.
	class   *labelClass
	terms   *terms
	leaving bool
}

// addNode adds a node with all pods on it.
func (x *Index) addNode(node *model.Node) int32 {
	var at int32
	if last := len(x.free) - 1; last >= 0 {
		at = x.free[last]
		x.free = x.free[:last]
	} else {
		at = int32(len(x.slots))
		x.slots = append(x.slots, nodeEntry{})
	}
	x.slots[at] = nodeEntry{node: node, object: objectOf(node)}
	x.enter(at)
	x.addPods(at)
	return at
}

// objectOf returns the node's object; nodes that a test made may have none.
func objectOf(node *model.Node) *corev1.Node {
	if node.Object == nil {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	}
	return node.Object
}

func (x *Index) addPods(at int32) {
	for _, task := range x.slots[at].node.Tasks {
		if task.Pod != nil && !(x.withoutTerminating && task.ReleasesResources()) {
			x.addTally(at, x.classify(task.Pod), 1)
		}
	}
}

// removeNode removes a node with all pods on it.
func (x *Index) removeNode(at int32) {
	x.forEachPod(at, -1)
	x.leave(at)
	x.slots[at] = nodeEntry{}
	x.free = append(x.free, at)
}

// recount removes a node and adds it as it is now.
func (x *Index) recount(at int32) {
	x.forEachPod(at, -1)
	clear(x.slots[at].pods)
	x.slots[at].pods = x.slots[at].pods[:0]
	x.renew(at)
	x.addPods(at)
}

// renew takes over a new version of a node; the pods on it stay.
func (x *Index) renew(at int32) {
	s := &x.slots[at]
	before := s.object
	if s.object = objectOf(s.node); sameTopologyFields(before, s.object) {
		return
	}
	x.forEachPod(at, -1)
	x.leave(at)
	x.enter(at)
	x.forEachPod(at, 1)
	x.layout++
	x.eachKey(func(k *key) {
		if i := s.node.Index; i < len(k.at) {
			k.at[i] = k.of[at]
		}
	})
}

// sameTopologyFields reports whether the fields of the node that matter here are unchanged.
func sameTopologyFields(a, b *corev1.Node) bool {
	return a == b || maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

func (x *Index) enter(at int32) {
	node := x.slots[at].object
	if x.nodeLabels != nil {
		x.noteLabels(node)
	}
	x.eachKey(func(k *key) { k.enter(at, node) })
	for _, a := range x.eligible {
		a.enter(at, node)
	}
}

func (x *Index) leave(at int32) {
	x.eachKey(func(k *key) { k.leave(at) })
	for _, a := range x.eligible {
		a.has[at] = false
	}
}

// forEachPod adds all pods on a node to the counts, or subtracts them, without changing the entry.
func (x *Index) forEachPod(at int32, sign int32) {
	for _, s := range x.slots[at].pods {
		x.move(at, s.kind, sign*s.count)
	}
}

// addTally adds pods of a kind to a node, or removes them.
func (x *Index) addTally(at int32, k podKind, n int32) {
	if k == (podKind{}) {
		return
	}
	pods := x.slots[at].pods
	i := slices.IndexFunc(pods, func(s podTally) bool { return s.kind == k })
	if i < 0 {
		pods = append(pods, podTally{kind: k})
		i = len(pods) - 1
	}
	if pods[i].count += n; pods[i].count == 0 {
		last := len(pods) - 1
		pods[i] = pods[last]
		pods[last] = podTally{}
		pods = pods[:last]
	}
	x.slots[at].pods = pods
	x.move(at, k, n)
}

func (x *Index) move(at int32, k podKind, n int32) {
	switch {
	case k.class == nil:
	case k.leaving:
		k.class.leaving.move(at, n)
	default:
		k.class.present.move(at, n)
	}
	if k.terms != nil {
		k.terms.holders.move(at, n)
	}
}
