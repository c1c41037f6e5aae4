package topology

import corev1 "k8s.io/api/core/v1"

// This file is which topology keys are known: those by which some node has a domain.

// place records the domain of every node by its place in the snapshot.
func (x *Index) place(k *key) {
	k.at = make([]int32, len(x.at))
	for i, at := range x.at {
		if at == noDomain { // a key that first occurs while the slots are compared is placed again after that
			k.at[i] = noDomain
			continue
		}
		k.at[i] = k.of[at]
	}
}

func (x *Index) eachKey(do func(*key)) {
	do(x.perNode)
	do(x.nowhere)
	for _, k := range x.keys {
		do(k)
	}
}

// key returns the topology key of a label.
func (x *Index) key(label string) *key { return x.keyOf(keyName{label: label}) }

func (x *Index) keyOf(name keyName) *key {
	k := x.keys[name]
	if k == nil {
		if !name.missingAsEmpty && !x.nodesHave(name.label) {
			return x.nowhere
		}
		k = &key{keyName: name, numbers: map[string]int32{}}
		x.keys[name] = k
		x.kept++
		for i := range x.slots {
			k.of = append(k.of, noDomain)
			if x.slots[i].node != nil {
				k.enter(int32(i), x.slots[i].object)
			}
		}
		x.place(k)
	}
	return k
}

// nodesHave reports whether a node has the label, or has had it since counting began. One that none has is noted.
func (x *Index) nodesHave(label string) bool {
	if x.nodeLabels == nil {
		if len(x.slots) > 0 && x.slots[0].object != nil {
			if _, has := x.slots[0].object.Labels[label]; has {
				return true // as most keys that pods name: the labels of the other nodes need not be read
			}
		}
		x.nodeLabels = map[string]bool{}
		for i := range x.slots {
			if object := x.slots[i].object; object != nil {
				x.noteLabels(object)
			}
		}
	}
	has, noted := x.nodeLabels[label]
	if !noted {
		x.nodeLabels[label] = false
		x.kept++
	}
	return has
}

// noteLabels records the labels of a node. Pods may have terms by one of them that do not count yet, since no node had it.
func (x *Index) noteLabels(node *corev1.Node) {
	for label := range node.Labels {
		if has, noted := x.nodeLabels[label]; !has {
			x.nodeLabels[label], x.stale = true, x.stale || noted
		}
	}
}
