package topology

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tutti-sched/tutti/pkg/model"
)

// This file knows which nodes there are and who is on them. It feeds the counts and asks nothing of them.

// slot is one node and who is on it, as far as it matters.
type slot struct {
	node *model.Node
	// object is the node as it was counted.
	object *corev1.Node
	pods   []standing
}

// standing is so many pods of one kind.
type standing struct {
	kind  kind
	count int32
}

// kind is all that matters about a pod on a node. The zero kind does not matter.
type kind struct {
	// class is nil while labels do not matter; terms are nil when the pod has none.
	class   *class
	terms   *terms
	leaving bool
}

// occupy takes in a node with everybody on it.
func (x *Index) occupy(node *model.Node) int32 {
	var at int32
	if last := len(x.free) - 1; last >= 0 {
		at = x.free[last]
		x.free = x.free[:last]
	} else {
		at = int32(len(x.slots))
		x.slots = append(x.slots, slot{})
	}
	x.slots[at] = slot{node: node, object: objectOf(node)}
	x.enter(at)
	x.settleIn(at)
	return at
}

// objectOf returns the node's object; nodes that were put together by hand may have none.
func objectOf(node *model.Node) *corev1.Node {
	if node.Object == nil {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	}
	return node.Object
}

func (x *Index) settleIn(at int32) {
	for _, task := range x.slots[at].node.Tasks {
		if task.Pod != nil && !(x.foresees && task.ReleasesResources()) {
			x.stand(at, x.classify(task.Pod), 1)
		}
	}
}

// vacate forgets a node with everybody on it.
func (x *Index) vacate(at int32) {
	x.everybody(at, -1)
	x.leave(at)
	x.slots[at] = slot{}
	x.free = append(x.free, at)
}

// recount takes in a node again, as it is now.
func (x *Index) recount(at int32) {
	x.everybody(at, -1)
	clear(x.slots[at].pods)
	x.slots[at].pods = x.slots[at].pods[:0]
	x.renew(at)
	x.settleIn(at)
}

// renew takes in a new version of a node; who is on it stays.
func (x *Index) renew(at int32) {
	s := &x.slots[at]
	before := s.object
	if s.object = objectOf(s.node); sameGround(before, s.object) {
		return
	}
	x.everybody(at, -1)
	x.leave(at)
	x.enter(at)
	x.everybody(at, 1)
	x.layout++
	x.eachKey(func(k *key) {
		if i := s.node.Index; i < len(k.at) {
			k.at[i] = k.of[at]
		}
	})
}

// sameGround tells whether nothing about the node changed that could matter here.
func sameGround(a, b *corev1.Node) bool {
	return a == b || maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

func (x *Index) enter(at int32) {
	node := x.slots[at].object
	x.eachKey(func(k *key) { k.enter(at, node) })
	for _, a := range x.amongs {
		a.enter(at, node)
	}
}

func (x *Index) leave(at int32) {
	x.eachKey(func(k *key) { k.leave(at) })
	for _, a := range x.amongs {
		a.has[at] = false
	}
}

// everybody counts all pods on a node, or takes them all off the counts, without changing who is there.
func (x *Index) everybody(at int32, sign int32) {
	for _, s := range x.slots[at].pods {
		x.move(at, s.kind, sign*s.count)
	}
}

// stand puts a pod of a kind on a node, or takes it away.
func (x *Index) stand(at int32, k kind, n int32) {
	if k == (kind{}) {
		return
	}
	pods := x.slots[at].pods
	i := slices.IndexFunc(pods, func(s standing) bool { return s.kind == k })
	if i < 0 {
		pods = append(pods, standing{kind: k})
		i = len(pods) - 1
	}
	if pods[i].count += n; pods[i].count == 0 {
		last := len(pods) - 1
		pods[i] = pods[last]
		pods[last] = standing{}
		pods = pods[:last]
	}
	x.slots[at].pods = pods
	x.move(at, k, n)
}

func (x *Index) move(at int32, k kind, n int32) {
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
