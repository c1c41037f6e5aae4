package place

import (
	"maps"
	"slices"

	"github.com/tutti-sched/tutti/pkg/model"
)

// regions are the nodes to which choices of domains confine members, by their kind: indexes in ascending order. A kind that is
// not in it may go to any node. It is a value: a further choice is another one.
type regions map[equivalenceClass][]int

// with returns regions that also confine those kinds to the nodes.
func (r regions) with(kinds map[equivalenceClass]bool, nodes []int) regions {
	more := regions{}
	maps.Copy(more, r)
	var before, joint []int // mostly the same for all kinds
	for kind := range kinds {
		if more[kind] = nodes; !r.confine(kind) {
			continue
		}
		if !slices.Equal(before, r[kind]) {
			before, joint = r[kind], intersection(r[kind], nodes)
		}
		more[kind] = joint
	}
	return more
}

func (r regions) confine(kind equivalenceClass) bool {
	_, confined := r[kind]
	return confined
}

// of returns the nodes to which a member is confined; confined is false where it may go to any node. Without regions the kind of
// the member is not looked up.
func (r regions) of(kinds *equivalenceClasses, member *model.Task) (nodes []int, confined bool) {
	if len(r) > 0 {
		nodes, confined = r[kinds.of(member)]
	}
	return nodes, confined
}

// inside returns those of the nodes, of all for nil, to which the regions let members of any of the kinds go. The result must not
// be changed.
func (t *Placer) inside(nodes []int, kinds map[equivalenceClass]bool, within regions) []int {
	var joint []int
	any := len(kinds) == 0
	for kind := range kinds {
		one := within[kind]
		switch any = any || !within.confine(kind); {
		case joint == nil:
			joint = one
		case !slices.Equal(joint, one):
			joint = slices.Concat(joint, one)
			slices.Sort(joint)
			joint = slices.Compact(joint)
		}
	}
	switch {
	case any && nodes == nil:
		return t.everywhere()
	case any:
		return nodes
	case nodes == nil:
		return joint
	}
	return intersection(joint, nodes)
}

// intersection returns the numbers that are in both of two ascending lists.
func intersection(a, b []int) []int {
	if len(a) > len(b) {
		a, b = b, a
	}
	return slices.DeleteFunc(slices.Clone(a), func(number int) bool {
		_, in := slices.BinarySearch(b, number)
		return !in
	})
}

func (t *Placer) everywhere() []int {
	all := make([]int, len(t.session.Snapshot.Nodes))
	for i := range all {
		all[i] = i
	}
	return all
}
